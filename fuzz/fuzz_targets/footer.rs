//! Files that nobody vouches for: no panic, and no bound that does not follow from the statistics.
//!
//! `cargo +nightly fuzz run -O footer fuzz/corpus/footer -- -max_len=8192 -malloc_limit_mb=256 -timeout=10`, with some
//! small Parquet files that have the columns `k BIGINT` and `s VARCHAR` in the corpus. `-O` leaves checks of overflow
//! out: the reader of Parquet subtracts numbers of footers unchecked, and would stop it at once.
#![no_main]

use std::cell::RefCell;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tokio::runtime::{Builder, Runtime};

#[path = "../../tests/it/untrusted/check.rs"]
mod check;

use check::Checker;

thread_local! {
    static STATE: RefCell<(Runtime, Checker)> = RefCell::new((
        Builder::new_current_thread().build().expect("a runtime"),
        Checker::new(),
    ));
}

fuzz_target!(|file: &[u8]| {
    let file = Bytes::copy_from_slice(file);
    STATE.with_borrow_mut(|(runtime, checker)| {
        runtime.block_on(checker.check(&file));
    });
});
