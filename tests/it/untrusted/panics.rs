//! Whose fault a panic is.

use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Once;

use futures::FutureExt;

thread_local! {
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    static TRACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// What `future` gives, or the function of another crate that panicked in it: that of Parquet subtracts and adds numbers
/// of footers unchecked. Panics if it was our code, or that of a test.
///
/// The future must run in this thread.
pub(crate) async fn unless_others_panic<T>(future: impl Future<Output = T>) -> Result<T, String> {
    install_hook();
    WATCHED.set(true);
    let result = AssertUnwindSafe(future).catch_unwind().await;
    WATCHED.set(false);
    if let Some(trace) = TRACE.take() {
        return match culprit(&trace) {
            Some(Culprit::Others(function)) => Err(function.to_owned()),
            Some(Culprit::Ours) | None => panic!("{trace}"),
        };
    }
    result.map_err(|_| "a panic without a trace".into())
}

#[derive(Debug, PartialEq)]
enum Culprit<'a> {
    Ours,
    Others(&'a str),
}

/// Whose code is innermost in a trace, the standard library and the hook left out. Only this package is built with the
/// lines of its code, and the standard library.
fn culprit(trace: &str) -> Option<Culprit<'_>> {
    const STANDARD: [&str; 6] = [
        "std::", "core::", "alloc::", "<std::", "<core::", "<alloc::",
    ];
    let mut lines = trace.lines().map(str::trim).peekable();
    while let Some(line) = lines.next() {
        let Some((number, function)) = line.split_once(": ") else {
            continue;
        };
        if number.parse::<u32>().is_err() {
            continue;
        }
        let place = lines.peek().and_then(|line| line.strip_prefix("at "));
        let is_standard = STANDARD.iter().any(|name| function.starts_with(name));
        match place {
            Some(place)
                if place.starts_with("/rustc/") || place.contains("untrusted/panics.rs") => {}
            Some(_) => return Some(Culprit::Ours),
            None if is_standard => {}
            None => return Some(Culprit::Others(function)),
        }
    }
    None
}

/// Keeps the traces of threads that are watched, and leaves others to the hook that there is.
fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if WATCHED.get() {
                TRACE.set(Some(format!("{info}\n{}", Backtrace::force_capture())));
            } else {
                before(info);
            }
        }));
    });
}

#[test]
fn the_culprit_is_who_calls_the_standard_library() {
    let hook = "attempt to add\n   0: {closure#0}\n   at ./tests/it/untrusted/panics.rs:9\n   1: sum\n   at /rustc/x.rs:5\n";
    let others = format!("{hook}   2: core::f\n   3: parquet::f\n   4: g\n   at ./src/units.rs:9");
    assert_eq!(culprit(&others), Some(Culprit::Others("parquet::f")));
    let ours = format!("{hook}   2: core::f\n   3: g\n   at ./src/units.rs:9\n   4: parquet::f");
    assert_eq!(culprit(&ours), Some(Culprit::Ours));
}
