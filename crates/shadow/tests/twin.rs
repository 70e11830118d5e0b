//! The fuzzer's twin for stable Rust: the same sequences from random bytes, and from the corpus.
//!
//! `FREEHOLD_SEED` repeats a run, and `FREEHOLD_FUZZ_SECONDS` makes it longer.

use freehold_shadow::{Random, run};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{env, fs};

/// The most bytes of a sequence: each operation takes some six.
const LONGEST: usize = 3000;

/// Says which sequence it was, if it fails.
struct Sequence {
    number: u64,
    length: usize,
}

impl Drop for Sequence {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("it was sequence {}, of {} bytes", self.number, self.length);
        }
    }
}

#[test]
fn random_sequences_leave_the_heap_as_the_shadow_says() {
    let seconds = env::var("FREEHOLD_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let until = Instant::now() + Duration::from_secs(seconds.unwrap_or(5));
    let mut random = Random::new();
    let mut number = 0;
    while Instant::now() < until {
        let bytes: Vec<u8> = (0..random.size(LONGEST)).map(|_| random.next() as u8).collect();
        let _sequence = Sequence { number, length: bytes.len() };
        run(&bytes);
        number += 1;
    }
    assert!(number > 10, "{number} sequences were run");
}

#[test]
fn the_sequences_of_the_corpus_leave_the_heap_as_the_shadow_says() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/heap");
    let mut count = 0;
    for entry in fs::read_dir(corpus).expect("there is a corpus") {
        run(&fs::read(entry.expect("readable").path()).expect("readable"));
        count += 1;
    }
    assert!(count > 0, "the corpus is empty");
}
