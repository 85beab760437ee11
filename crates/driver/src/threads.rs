//! The number of threads of a link.
//!
//! In: the option. Out: a number, and a line if it is smaller than the option. Guaranteed: no more
//! threads than help: each takes memory, and work is divided among all of them.

use std::num::NonZero;
use std::{fs, thread};

use culd_link::{Session, Severity};

use crate::messages::Line;
use crate::options::{CommandOptions, OptionId};

/// Threads for each processor: some wait for files, or for ptxas.
const FOR_EACH: usize = 4;

/// The most threads that a link gets on this machine.
#[must_use]
pub fn most_threads() -> usize {
    cores().saturating_mul(FOR_EACH)
}

/// How many processors there are for this process.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// The number of threads that run or wait for a processor, and that of all threads.
const LOAD: &str = "/proc/loadavg";

/// True if a link may do several things at a time: `options` ask for threads, or else `session` may
/// have some.
pub(crate) fn overlaps(options: &CommandOptions, session: &Session) -> bool {
    match options.number(OptionId::Threads) {
        Some(asked) if asked > 0 => asked > 1,
        _ => session.most_lanes() > 1,
    }
}

/// True if a link may do work that can turn out to be in vain beside work that it needs: `options`
/// ask for threads, or else `session` may have some and, as far as one look can tell, two
/// processors have nothing to do but this link, of which `own` threads run.
#[must_use]
pub fn has_room(options: &CommandOptions, session: &Session, own: usize) -> bool {
    let asks = options.number(OptionId::Threads).is_some_and(|asked| asked > 0);
    overlaps(options, session) && (asks || others_running(own) + 2 <= cores())
}

/// How many threads of this machine run or wait for a processor, without `own`.
fn others_running(own: usize) -> usize {
    let load = fs::read_to_string(LOAD).ok();
    load.as_deref().and_then(running).map_or(0, |running| running.saturating_sub(own))
}

/// The number of running threads in the text of [`LOAD`].
fn running(load: &str) -> Option<usize> {
    load.split(' ').nth(3)?.split_once('/')?.0.parse().ok()
}

/// The threads that `options` ask for, 0 for one per core, and a line about them.
pub(crate) fn threads(options: &CommandOptions) -> (usize, Option<Line>) {
    let asked = options.number(OptionId::Threads).and_then(|count| usize::try_from(count).ok());
    let asked = asked.unwrap_or(0);
    // To count processors takes longer than to read a small input: a dozen system calls.
    if asked <= 1 {
        return (asked, None);
    }
    let most = most_threads();
    if asked <= most {
        return (asked, None);
    }
    let text = format!("-threads={asked}: {most} are used, {FOR_EACH} for each processor");
    let line = Line::new(Severity::Info, text);
    (most, Some(line).filter(|_| !options.flag(OptionId::DisableInfos)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Request, parse};

    #[test]
    fn running_threads_are_read() {
        assert_eq!(running("1.72 2.25 2.34 2/88 6000\n"), Some(2));
        assert_eq!(running("1.72 2.25 2.34 \n"), None);
        assert_eq!(running(""), None);
    }

    #[test]
    fn nobody_gets_more_threads_than_help() {
        let most = most_threads();
        assert!(most >= FOR_EACH);
        let got = |words: &str| {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            let parsed =
                parse(&[&["-arch=sm_90".to_owned(), "a.o".to_owned()], &words[..]].concat());
            let Ok(Request::Link(options)) = parsed.request else { panic!("{words:?}") };
            let (count, line) = threads(&options);
            (count, line.map(|line| line.text))
        };
        assert_eq!(got("-o=x"), (0, None));
        assert_eq!(got("-o=x -threads=1"), (1, None));
        assert_eq!(got(&format!("-o=x -threads={most}")), (most, None));
        let line = format!("-threads=100000: {most} are used, 4 for each processor");
        assert_eq!(got("-o=x -threads=100000"), (most, Some(line)));
        assert_eq!(got(&format!("-o=x -threads={}", i32::MAX)).0, most);
        assert_eq!(got("-o=x -threads=100000 -disable-infos"), (most, None));
    }
}
