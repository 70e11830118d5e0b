//! A Rust program whose allocator is Freehold, linked into it: collections in many threads, and
//! every function of the crate.

use std::alloc::{GlobalAlloc, Layout};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::mpsc::channel;
use std::thread;

#[global_allocator]
static ALLOCATOR: freehold::Freehold = freehold::Freehold;

/// Bytes in a page-aligned type that no size class was made for.
#[repr(align(4096))]
struct Page([u8; 5000]);

fn main() {
    let boxed = Box::new(1);
    assert!(freehold::owns(&raw const *boxed), "a Box is not Freehold's");
    let local = 1;
    assert!(!freehold::owns(&raw const local), "the stack is not Freehold's");
    assert!(!freehold::VERSION.is_empty());
    // First: what was in use before has to be cleared.
    what_is_zero_is_not_written_to();
    collections_in_threads();
    alignments();
    layouts();
    what_is_free_goes_back();
    println!("done");
}

/// Words that are made in one thread, sorted in another and dropped in a third.
fn collections_in_threads() {
    let (words, received) = channel::<String>();
    let (sorted, finished) = channel::<BTreeMap<String, usize>>();
    thread::scope(|scope| {
        for n in 0..8 {
            let words = words.clone();
            scope.spawn(move || {
                for i in 0..5_000 {
                    words.send(format!("{:0>width$}", i, width = 1 + (n * i) % 300)).expect("read");
                }
            });
        }
        drop(words);
        scope.spawn(move || {
            let mut counts = BTreeMap::new();
            for word in received {
                *counts.entry(word).or_insert(0) += 1;
            }
            sorted.send(counts).expect("read");
        });
        let counts = finished.recv().expect("sent");
        assert_eq!(counts.values().sum::<usize>(), 40_000);
    });
    let mut map = HashMap::new();
    let mut queue = VecDeque::new();
    for i in 0..100_000_u64 {
        map.insert(i, vec![i; (i % 20) as usize]);
        queue.push_back(i);
        if queue.len() > 1000 {
            let first = queue.pop_front().expect("not empty");
            assert_eq!(map.remove(&first).expect("there").len() as u64, first % 20);
        }
    }
}

fn alignments() {
    let pages: Vec<_> = (0..100).map(|n| Box::new(Page([n; 5000]))).collect();
    for (n, page) in pages.iter().enumerate() {
        assert_eq!((&raw const **page).addr() % 4096, 0);
        assert!(page.0.iter().all(|&byte| usize::from(byte) == n));
    }
}

/// The allocator's own interface, with every kind of layout.
fn layouts() {
    for align in [1, 8, 16, 64, 4096, 1 << 20] {
        for size in [1, 15, 100, 5_000, 100_000, 3 << 20] {
            let layout = Layout::from_size_align(size, align).expect("a power of two");
            // SAFETY: the layout is not empty; the object is used within its size, and freed with
            // the layout that it was last given.
            unsafe {
                let object = ALLOCATOR.alloc_zeroed(layout);
                assert!(!object.is_null() && object.addr().is_multiple_of(align));
                assert!(std::slice::from_raw_parts(object, size).iter().all(|&byte| byte == 0));
                object.write_bytes(7, size);
                let grown = ALLOCATOR.realloc(object, layout, size * 2);
                assert!(!grown.is_null() && grown.addr().is_multiple_of(align));
                assert!(std::slice::from_raw_parts(grown, size).iter().all(|&byte| byte == 7));
                let layout = Layout::from_size_align(size * 2, align).expect("a power of two");
                ALLOCATOR.dealloc(grown, layout);
            }
        }
    }
}

/// Memory that is zero because nobody has written to it does not become resident, whatever its
/// alignment.
fn what_is_zero_is_not_written_to() {
    const MIB: usize = 1 << 20;
    let resident = || {
        let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
        let pages = statm.split(' ').nth(1).and_then(|it| it.parse::<usize>().ok());
        pages.expect("a number") * 4096
    };
    for align in [8, 64, 4096, 2 * MIB] {
        let layout = Layout::from_size_align(300 * MIB, align).expect("a power of two");
        let before = resident();
        // SAFETY: the layout is not empty; the object is freed with it.
        unsafe {
            let object = ALLOCATOR.alloc_zeroed(layout);
            assert!(!object.is_null());
            assert!(resident() < before + 16 * MIB, "{align}");
            ALLOCATOR.dealloc(object, layout);
        }
    }
}

fn what_is_free_goes_back() {
    let before = freehold::usage().in_use();
    let blocks: Vec<Vec<u8>> = (0..1000).map(|_| vec![1; 50_000]).collect();
    assert!(freehold::usage().in_use() >= before + 50_000_000);
    drop(blocks);
    assert!(freehold::usage().in_use() < before + (1 << 20));
    freehold::purge();
    assert!(freehold::usage().dirty < 1 << 20);
}
