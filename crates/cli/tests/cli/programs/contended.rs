//! Threads that wait for a lock of the program, which is a static of a module.

use std::time::{Duration, Instant};

mod ledger {
    use std::sync::Mutex;

    pub static BALANCE: Mutex<u64> = Mutex::new(0);

    #[inline(never)]
    pub fn transfer(amount: u64) {
        let mut balance = BALANCE.lock().expect("not poisoned");
        for n in 0..20_000 {
            *balance = std::hint::black_box(*balance).wrapping_mul(31).wrapping_add(amount + n);
        }
    }
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1.0);
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let work = || {
        while Instant::now() < end {
            ledger::transfer(7);
        }
    };
    std::thread::scope(|scope| (0..6).for_each(|_| drop(scope.spawn(work))));
}
