//! A folder for links with LTO-IR, whose compilers are scripts.
//!
//! In: the command under test. Out: outputs, command lines of the compilers. Guaranteed: one
//! such folder at a time.
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    reason = "only tests use it"
)]

use crate::world::{ProgramFolder, copy_quickstart};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A folder with culd, inputs, and a ptxas that makes `smooth.cubin` of any PTX, or `whole.cubin`
/// of a whole program.
pub struct LtoFolder {
    /// The place.
    pub folder: ProgramFolder,
}

impl LtoFolder {
    /// A folder with `culd`, a program.
    pub fn new(culd: &str) -> Self {
        let world = LtoFolder { folder: ProgramFolder::new() };
        fs::copy(culd, world.path("culd")).unwrap();
        fs::write(world.path("a.ltoir"), [b'L'; 64]).unwrap();
        fs::write(world.path("b.ltoir"), [b'M'; 64]).unwrap();
        copy_quickstart(world.folder.path());
        fs::create_dir_all(world.path("toolkit/nvvm")).unwrap();
        let mut whole = Command::new(world.path("culd"));
        whole.args(["-arch=sm_90", "saxpy.cubin", "smooth.cubin", "-o", "whole.cubin"]);
        assert!(whole.current_dir(world.folder.path()).status().unwrap().success());
        let [smooth, whole] = ["smooth.cubin", "whole.cubin"].map(|name| world.path(name));
        world.script(
            "ptxas",
            &format!(
                "printf '%s\\n' \"$*\" >> {}\ncase \"$*\" in *' -c '*) cp {} elf.o;; *) cp {} elf.o;; esac\n\
                 grep -q 'made of LL MM' ptx || exit 1",
                world.path("assembled").display(),
                smooth.display(),
                whole.display()
            ),
        );
        world
    }

    /// The file `name` in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A program that is a script for the shell.
    pub fn script(&self, name: &str, text: &str) {
        fs::write(self.path(name), format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A culd-lto that makes PTX which names its inputs.
    pub fn compiler(&self) {
        self.compiler_and("");
    }

    /// The same, with the commands `more` in front of each reply. It makes `smooth.cubin` when
    /// names are read from an object, and takes the text of names for LTO-IR. To a request for two
    /// outputs there are two replies, which come together. Requests for LTO-IR of names are not in
    /// [`LtoFolder::words`].
    pub fn compiler_and(&self, more: &str) {
        self.script(
            "culd-lto",
            &format!(
                "reply() {{\n\
                 kind=$1\n\
                 printf '%s\\n\\0' \"$text\" > made\n[ $kind = object ] && cp {} made\n\
                 {more}\n\
                 printf '%s' \"$said\" > report\n\
                 {{ echo 2; wc -c < report; cat report; wc -c < made; cat made; }} > reply\n\
                 [ -s made ] || {{ echo 1; wc -c < report; cat report; }} > reply\n\
                 cat reply >> replies\n\
                 }}\n\
                 while read -r count; do\n\
                 text='// made of' said='made by a script' line= next=word\n\
                 while [ $count -gt 0 ]; do\n\
                 read -r size; head -c $size > part; count=$((count-1))\n\
                 case $next in\n\
                 bytes) text=\"$text $(head -c 2 part)\" next=word; continue;;\n\
                 roots) cp part roots; next=word; continue;;\n\
                 kind) next=name;; name) next=bytes;;\n\
                 *) case $(tr -d '\\0' < part) in --input) next=kind;; --*roots) next=roots;; esac;;\n\
                 esac\n\
                 line=\"$line $(cat part)\"\n\
                 done\n\
                 kind=${{line%% --*}} kind=${{kind# }}\n\
                 if [ $kind = names ]; then\n\
                 {{ echo 2; echo 0; wc -c < roots; cat roots; }} >&0; continue\n\
                 fi\n\
                 printf '%s\\n' \"$*$line\" >> words\n\
                 rm -f replies\n\
                 case $kind in both) reply ptx; reply object;; *) reply $kind;; esac\n\
                 cat replies >&0\n\
                 done",
                self.path("smooth.cubin").display()
            ),
        );
    }

    /// The cubin of a whole program.
    pub fn whole(&self) -> Vec<u8> {
        fs::read(self.path("whole.cubin")).unwrap()
    }

    /// Links with the words of `words`.
    pub fn run(&self, words: &str) -> Output {
        self.run_words(words.split(' '))
    }

    /// Links with `words`.
    pub fn run_words<'w>(&self, words: impl Iterator<Item = &'w str>) -> Output {
        self.command(words).output().unwrap()
    }

    /// A link with `words`.
    pub fn command<'w>(&self, words: impl Iterator<Item = &'w str>) -> Command {
        let mut command = Command::new(self.path("culd"));
        command.args(["-arch=sm_90", "-lto", "-nvvmpath=toolkit/nvvm"]);
        command.arg(format!("--ptxas-path={}", self.path("ptxas").display()));
        command.args(words).current_dir(self.folder.path());
        command.env("PATH", "/usr/bin:/bin").env_remove("CUDA_HOME");
        command
    }

    /// The arguments of culd-lto since the last call.
    pub fn words(&self) -> String {
        self.taken("words")
    }

    /// The arguments of ptxas since the last call.
    pub fn assembled(&self) -> String {
        self.taken("assembled")
    }

    /// The file `name`, which is removed.
    pub fn taken(&self, name: &str) -> String {
        let text = fs::read_to_string(self.path(name)).unwrap();
        fs::remove_file(self.path(name)).unwrap();
        text
    }
}

/// The messages of a link.
pub fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
