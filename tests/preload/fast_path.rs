//! The fast path, as it is built: how many instructions a malloc and a free are, and that they
//! contain nothing which waits for other processors or leaves the function.

use std::path::Path;

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol};

use crate::support::child::Child;
use crate::support::{compile, library, tools};

/// Instructions that `pairs` executes to do `count` pairs, by the count of callgrind.
fn instructions(valgrind: &Path, pairs: &Path, count: u64) -> u64 {
    let ended = Child::new(valgrind)
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(pairs)
        .arg(count.to_string())
        .freehold()
        .run()
        .succeeded();
    let said = ended.err();
    let collected = said.lines().find_map(|line| line.split_once("Collected : "));
    ended.check(collected.is_some(), "callgrind was to say what it has counted");
    let (_, number) = collected.unwrap_or_default();
    number.trim().parse().expect("a number")
}

/// Fails if malloc(16), free and the loop around them are more instructions, in a program that is
/// compiled with these arguments.
fn a_pair_is_at_most(most: f64, arguments: &[&str]) {
    const PAIRS: u64 = 200_000;
    let Some(valgrind) = tools::find("valgrind") else { return };
    let pairs = compile::c_with("pairs.c", arguments);
    // What is not in the loop is the same in both, and the slow path has its share in each pair.
    let more = instructions(&valgrind, &pairs, 2 * PAIRS) - instructions(&valgrind, &pairs, PAIRS);
    let pair = more as f64 / PAIRS as f64;
    tools::say(&format!("{pair:.2} instructions a pair"));
    assert!(pair <= most, "a pair is {pair:.2} instructions");
    assert!(pair >= 10.0, "{pair:.2} instructions cannot be a malloc and a free");
}

#[test]
fn a_pair_of_malloc_and_free_is_at_most_40_instructions() {
    a_pair_is_at_most(40.0, &[]);
}

#[test]
fn a_pair_without_a_linkage_table_is_at_most_38_instructions() {
    // As programs in Rust call, and those in C that are compiled so.
    a_pair_is_at_most(38.0, &["-fno-plt"]);
}

/// The instructions of a function of the library, from its start to its first return: the fast
/// path, since what does not take it jumps away.
fn fast_path(objdump: &Path, function: &str) -> Vec<String> {
    let elf = ElfFile64::<Endianness>::parse(freehold_embed::FREEHOLD.bytes).expect("an ELF file");
    let symbol = elf.dynamic_symbols().find(|symbol| symbol.name() == Ok(function));
    let symbol = symbol.expect("the function is exported");
    let end = symbol.address() + symbol.size();
    let listing = Child::new(objdump)
        .args(["--disassemble", "--no-show-raw-insn"])
        .arg(format!("--start-address={:#x}", symbol.address()))
        .arg(format!("--stop-address={end:#x}"))
        .arg(library::shared())
        .run()
        .succeeded()
        .out();
    let mut path = Vec::new();
    for line in listing.lines() {
        // "    5d74:\tcmp    $0x400,%rdi"
        let Some((_, instruction)) = line.split_once(":\t") else { continue };
        path.push(instruction.trim().to_owned());
        if instruction.starts_with("ret") {
            return path;
        }
    }
    panic!("{function} does not return:\n{listing}");
}

/// Fails unless none of these stands in the fast path: instructions that lock the bus, by prefix
/// or by nature, that call, and that leave unconditionally.
fn touches_nothing_shared(function: &str, most: usize) {
    const FORBIDDEN: &[&str] = &["lock", "xchg", "call", "jmp", "syscall", "mfence", "xacquire"];
    if !cfg!(target_arch = "x86_64") {
        return tools::skip("the instructions are known for x86-64 only");
    }
    let Some(objdump) = tools::find("objdump") else { return };
    let path = fast_path(&objdump, function);
    let shown = path.join("\n");
    assert!(path.len() <= most, "{function} has {} instructions:\n{shown}", path.len());
    for instruction in &path {
        let is_forbidden = FORBIDDEN.iter().any(|word| instruction.starts_with(word));
        assert!(!is_forbidden, "{instruction:?} in {function}:\n{shown}");
    }
    assert!(shown.contains("%fs:"), "{function} does not touch the thread's storage:\n{shown}");
}

#[test]
fn malloc_takes_an_object_without_locked_instructions_or_calls() {
    touches_nothing_shared("malloc", 11);
}

#[test]
fn operator_new_takes_an_object_without_locked_instructions_or_calls() {
    touches_nothing_shared("_Znwm", 11);
}

#[test]
fn free_keeps_an_object_without_locked_instructions_or_calls() {
    touches_nothing_shared("free", 19);
}

#[test]
fn operator_delete_keeps_an_object_without_locked_instructions_or_calls() {
    touches_nothing_shared("_ZdlPv", 19);
}
