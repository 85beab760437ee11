//! Packages of the folder that `xtask dist` makes.
//!
//! In: the folder. Out: files in its folder `packages`, and their checksums. Guaranteed: the same
//! folder gives the same bytes, on every machine and at every time: files have one time, one owner
//! and one order.

use super::said;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The time of all files in packages: 1980-01-01, the first that a zip file has.
pub(super) const TIME: &str = "315532800";
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The folders of the tree.
const PARTS: &[&str] = &["bin", "include", "lib", "share"];
/// The libraries have NVIDIA's names, so in packages of a system they lie where the loader does not
/// look: nobody gets them by accident.
const LIBRARY_FOLDER: &str = "lib/culd";
const SUMMARY: &str = "open linker for CUDA device code, in the place of nvlink";
/// Lines of less than 80 characters.
const DESCRIPTION: &[&str] = &[
    "culd links the objects of nvcc -dc, clang -fgpu-rdc and ptxas -c to the cubin",
    "that the CUDA driver loads. It has nvlink's command line and output, and",
    "libraries with the interface of libnvJitLink.",
];
/// What Debian's policy asks for beside the licences.
const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: culd

Files: *
Copyright: 2026 The culd developers
License: MIT or Apache-2.0
 LICENSE-MIT and LICENSE-APACHE in this folder are their texts. THIRD-PARTY.txt
 has the licences of the crates in the programs and libraries.
";

/// Makes the packages of the folder `dist`, which is for machines of the architecture `arch`.
pub(super) fn make(dist: &Path, arch: &str) -> Result<()> {
    let packages = dist.join("packages");
    fs::create_dir_all(&packages)?;
    archive(dist, arch, &packages)?;
    let stage = tempfile::tempdir()?;
    let root = stage.path().join("root");
    system_tree(dist, &root.join("usr"))?;
    debian(&root, arch, stage.path(), &packages)?;
    red_hat(&root, arch, stage.path(), &packages)?;
    checksums(&packages)
}

/// The tree as an archive that can be unpacked anywhere.
fn archive(dist: &Path, arch: &str, to: &Path) -> Result<()> {
    let name = format!("culd-{VERSION}-{arch}-linux");
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=u+rw,go=rX"]);
    tar.arg(format!("--mtime=@{TIME}")).arg(format!("--transform=s,^,{name}/,S"));
    // Without the name and time of the file itself.
    tar.args(["--use-compress-program", "gzip -n9", "-cf"]);
    tar.arg(to.join(format!("{name}.tar.gz"))).arg("-C").arg(dist).args(PARTS);
    said(&mut tar)?;
    Ok(())
}

/// The tree as a system has it below `/usr`.
fn system_tree(dist: &Path, usr: &Path) -> Result<()> {
    for part in PARTS {
        let mut copy = Command::new("cp");
        fs::create_dir_all(usr)?;
        said(copy.args(["-a"]).arg(dist.join(part)).arg(usr))?;
    }
    let libraries = usr.join(LIBRARY_FOLDER);
    fs::create_dir_all(&libraries)?;
    for entry in fs::read_dir(usr.join("lib"))? {
        let entry = entry?;
        if entry.file_name() != "culd" {
            fs::rename(entry.path(), libraries.join(entry.file_name()))?;
        }
    }
    let pc = libraries.join("pkgconfig/nvjitlink.pc");
    let text = fs::read_to_string(&pc)?;
    let text = text.replace("/../..", "/../../..").replace("}/lib\n", "}/lib/culd\n");
    let text = text.replace("-L${libdir} ", "-L${libdir} -Wl,-rpath,${libdir} ");
    fs::create_dir_all(usr.join("share/pkgconfig"))?;
    // Where pkg-config looks by itself, one folder less deep.
    fs::write(usr.join("share/pkgconfig/nvjitlink.pc"), text.replace("/../../..", "/../.."))?;
    fs::remove_dir_all(libraries.join("pkgconfig"))?;
    // NVIDIA's header has the same name.
    let include = usr.join("include/culd");
    fs::create_dir_all(&include)?;
    fs::rename(usr.join("include/nvJitLink.h"), include.join("nvJitLink.h"))?;
    let pc = usr.join("share/pkgconfig/nvjitlink.pc");
    let text = fs::read_to_string(&pc)?;
    fs::write(&pc, text.replace("}/include\n", "}/include/culd\n"))?;
    for page in pages(&usr.join("share/man/man1"))? {
        said(Command::new("gzip").args(["-n9"]).arg(page))?;
    }
    plain_modes(usr)
}

/// Modes of files and folders that do not depend on the builder's umask.
fn plain_modes(tree: &Path) -> Result<()> {
    said(Command::new("chmod").args(["-R", "u+rwX,go=rX"]).arg(tree))?;
    Ok(())
}

/// The files of a folder.
fn pages(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}

/// `culd_0.1.0_amd64.deb`, by dpkg-deb.
fn debian(root: &Path, arch: &str, stage: &Path, to: &Path) -> Result<()> {
    let machine = match arch {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        _ => bail!("Debian's name of {arch}"),
    };
    let tree = stage.join("deb");
    said(Command::new("cp").arg("-a").arg(root).arg(&tree))?;
    let size = said(Command::new("du").args(["-sk", "--apparent-size"]).arg(&tree))?;
    let size = size.split_whitespace().next().context("du says no size")?;
    let control = format!(
        "Package: culd\nVersion: {VERSION}\nArchitecture: {machine}\nMaintainer: The culd project <culd@invalid>\n\
         Installed-Size: {size}\nDepends: libc6 (>= 2.17)\nSection: devel\nPriority: optional\n\
         Description: {SUMMARY}\n {}\n",
        DESCRIPTION.join("\n ")
    );
    fs::write(tree.join("usr/share/doc/culd/copyright"), COPYRIGHT)?;
    fs::create_dir_all(tree.join("DEBIAN"))?;
    fs::write(tree.join("DEBIAN/control"), control)?;
    let mut deb = Command::new("dpkg-deb");
    deb.env("SOURCE_DATE_EPOCH", TIME).args(["--root-owner-group", "-Zxz", "--build"]);
    plain_modes(&tree)?;
    said(deb.arg(&tree).arg(to.join(format!("culd_{VERSION}_{machine}.deb"))))?;
    Ok(())
}

/// `culd-0.1.0-1.x86_64.rpm`, by rpmbuild, where there is one.
fn red_hat(root: &Path, arch: &str, stage: &Path, to: &Path) -> Result<()> {
    if Command::new("rpmbuild").arg("--version").output().is_err() {
        println!("no rpmbuild (on Debian: apt install rpm): no .rpm");
        return Ok(());
    }
    let spec = stage.join("culd.spec");
    let text = format!(
        "Name: culd\nVersion: {VERSION}\nRelease: 1\nSummary: {SUMMARY}\nLicense: MIT OR Apache-2.0\n\
         AutoReqProv: no\nRequires: glibc >= 2.17\n\
         %global __os_install_post %{{nil}}\n%global debug_package %{{nil}}\n%global _build_id_links none\n\
         %description\n{description}\n\
         %install\nmkdir -p %{{buildroot}}\ncp -a {root}/. %{{buildroot}}\n\
         find %{{buildroot}} -exec touch -h -d @{TIME} {{}} +\n\
         %files\n%defattr(-,root,root,-)\n\
         %dir /usr/share/fish\n%dir /usr/share/pkgconfig\n%dir /usr/share/zsh\n/usr/bin/*\n/usr/include/culd\n/usr/lib/culd\n/usr/share/*/*\n",
        description = DESCRIPTION.join("\n"),
        root = root.display(),
    );
    fs::write(&spec, text)?;
    let mut rpm = Command::new("rpmbuild");
    rpm.env("SOURCE_DATE_EPOCH", TIME).arg("-bb").arg(format!("--target={arch}"));
    for macro_ in [
        format!("_topdir {}", stage.join("rpm").display()),
        format!("_rpmdir {}", to.display()),
        "_rpmfilename %{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm".to_owned(),
        "_buildhost culd".to_owned(),
        "use_source_date_epoch_as_buildtime 1".to_owned(),
        "clamp_mtime_to_source_date_epoch 1".to_owned(),
        "_binary_payload w9.xzdio".to_owned(),
    ] {
        rpm.arg("--define").arg(macro_);
    }
    said(rpm.arg(&spec))?;
    Ok(())
}

/// The checksums of all packages, as `sha256sum --check` reads them.
fn checksums(packages: &Path) -> Result<()> {
    let names = pages(packages)?;
    let names = names.iter().filter_map(|path| path.file_name());
    let names = names.filter(|name| *name != "SHA256SUMS");
    let sums = said(Command::new("sha256sum").args(names).current_dir(packages))?;
    fs::write(packages.join("SHA256SUMS"), sums)?;
    Ok(())
}
