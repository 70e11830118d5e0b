//! `Top` on threads whose times are known: those of this process.

use std::fs;
use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use freehold_model::{TopReport, TopRow};
use freehold_observe::top::{By, Top};
use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};

fn thread_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Uses this much processor time.
fn work(seconds: f64) {
    let end = thread_seconds() + seconds;
    while thread_seconds() < end {
        for n in 0..1000 {
            black_box(n);
        }
    }
}

/// A thread that works when it is told to, and then says how much time that took.
struct Worker {
    tid: u32,
    orders: Sender<f64>,
    answers: Receiver<f64>,
    thread: JoinHandle<()>,
}

impl Worker {
    fn start() -> Self {
        let (orders, ordered) = channel::<f64>();
        let (answer, answers) = channel();
        let (number, numbers) = channel();
        let thread = thread::spawn(move || {
            number.send(gettid().as_raw_pid().unsigned_abs()).expect("heard");
            for seconds in ordered {
                let before = thread_seconds();
                work(seconds);
                answer.send(thread_seconds() - before).expect("heard");
            }
        });
        Self { tid: numbers.recv().expect("started"), orders, answers, thread }
    }

    fn end(self) {
        drop(self.orders);
        self.thread.join().expect("ends");
    }
}

/// Waits as `Top` asks for, until the flag is set.
fn until(flag: &AtomicBool) -> impl FnMut(Duration) -> ControlFlow<()> {
    |duration| {
        thread::sleep(duration);
        if flag.load(Ordering::Acquire) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

fn row(report: &TopReport, tid: u32) -> &TopRow {
    report.rows.iter().find(|row| row.tid == Some(tid)).expect("the thread is seen")
}

const LONG: Duration = Duration::from_secs(3600);

#[test]
fn time_on_a_processor_agrees_with_the_threads_own_clock_within_one_percent() {
    let worker = Worker::start();
    let mut top = Top::of(std::process::id(), By::Thread).expect("may be watched");
    let done = Arc::new(AtomicBool::new(false));
    worker.orders.send(0.5).expect("it waits");
    let told = Arc::clone(&done);
    let Worker { tid, orders, answers, thread } = worker;
    let listener = thread::spawn(move || {
        let used = answers.recv().expect("an answer");
        told.store(true, Ordering::Release);
        (used, answers)
    });
    let (report, flow) = top.interval(LONG, &mut until(&done));
    assert!(flow.is_break());
    let (used, answers) = listener.join().expect("ends");
    let row = row(&report, tid);
    let seen = (row.shares.usr + row.shares.sys) * row.seconds;
    assert!((seen - used).abs() <= 0.01 * used, "{seen} s seen, {used} s used");
    Worker { tid, orders, answers, thread }.end();
}

/// How long a thread of ours was on a processor and waited for one, as the scheduler counts it.
fn scheduled(tid: u32) -> (f64, f64) {
    let text = fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).expect("counted");
    let mut numbers = text.split_whitespace().map(|word| word.parse::<f64>().expect("a number"));
    let mut next = || numbers.next().expect("there are two") / 1e9;
    (next(), next())
}

#[test]
fn waiting_for_a_processor_agrees_with_the_scheduler_within_two_percent() {
    // So many that each has to wait, whatever else the machine does.
    let count = 2 * thread::available_parallelism().map_or(1, usize::from);
    let workers: Vec<_> = (0..count).map(|_| Worker::start()).collect();
    let before: Vec<_> = workers.iter().map(|worker| scheduled(worker.tid)).collect();
    let mut top = Top::of(std::process::id(), By::Thread).expect("may be watched");
    for worker in &workers {
        worker.orders.send(0.25).expect("it waits");
    }
    for worker in &workers {
        worker.answers.recv().expect("an answer");
    }
    // They wait again, so that nothing is still being counted.
    let asleep = |worker: &Worker| {
        let path = format!("/proc/self/task/{}/stat", worker.tid);
        fs::read_to_string(path).expect("counted").contains(") S ")
    };
    while !workers.iter().all(asleep) {
        thread::yield_now();
    }
    let (report, _) = top.interval(Duration::ZERO, &mut |_| ControlFlow::Continue(()));
    for (worker, before) in workers.iter().zip(before) {
        let (after, row) = (scheduled(worker.tid), row(&report, worker.tid));
        let (ran, waited) = (after.0 - before.0, after.1 - before.1);
        let seen = row.shares.lat * row.seconds;
        assert!((seen - waited).abs() <= 0.02 * waited, "{seen} s seen, {waited} s waited");
        let seen = (row.shares.usr + row.shares.sys) * row.seconds;
        assert!((seen - ran).abs() <= 0.01 * ran, "{seen} s seen, {ran} s ran");
    }
    workers.into_iter().for_each(Worker::end);
}

#[test]
fn a_thread_that_took_the_place_of_another_is_found() {
    let first = Worker::start();
    let mut top = Top::of(std::process::id(), By::Thread).expect("may be watched");
    let ended = first.tid;
    first.end();
    // As many threads as before.
    let second = Worker::start();
    second.orders.send(0.05).expect("it waits");
    let used = second.answers.recv().expect("an answer");
    let (report, _) = top.interval(Duration::ZERO, &mut |_| ControlFlow::Continue(()));
    assert_eq!(row(&report, ended).ended, 1);
    let new = row(&report, second.tid);
    let seen = (new.shares.usr + new.shares.sys) * new.seconds;
    assert!(seen >= 0.9 * used, "{seen} s seen, {used} s used");
    second.end();
}

#[test]
fn without_counts_the_time_of_threads_is_told_and_no_calls_are_counted() {
    let worker = Worker::start();
    let mut top = Top::without_counts(std::process::id(), By::Thread).expect("may be watched");
    worker.orders.send(0.05).expect("it waits");
    let used = worker.answers.recv().expect("an answer");
    let (report, _) = top.interval(Duration::ZERO, &mut |_| ControlFlow::Continue(()));
    let row = row(&report, worker.tid);
    let seen = (row.shares.usr + row.shares.sys) * row.seconds;
    assert!(seen >= 0.9 * used, "{seen} s seen, {used} s used");
    assert_eq!((row.system_calls, row.signals), (None, None));
    worker.end();
}

#[test]
fn shares_of_every_thread_and_process_add_up_to_the_whole() {
    let worker = Worker::start();
    for by in [By::Thread, By::Process] {
        let mut top = Top::of(std::process::id(), by).expect("may be watched");
        worker.orders.send(0.05).expect("it waits");
        worker.answers.recv().expect("an answer");
        let (report, _) = top.interval(Duration::ZERO, &mut |_| ControlFlow::Continue(()));
        for row in report.rows.iter().filter(|row| row.seconds > 0.0) {
            let total = row.shares.total();
            assert!((total - 1.0).abs() < 1e-9, "{total}: {row:?}");
        }
    }
    worker.end();
}

#[test]
fn a_thread_that_waits_for_a_lock_is_told_from_one_that_sleeps() {
    let lock = Arc::new(Mutex::new(()));
    let held = lock.lock().expect("free");
    let (number, numbers) = channel();
    let waiting = {
        let (number, lock) = (number.clone(), Arc::clone(&lock));
        thread::spawn(move || {
            number.send(gettid().as_raw_pid().unsigned_abs()).expect("heard");
            drop(lock.lock().expect("not poisoned"));
        })
    };
    let locked = numbers.recv().expect("started");
    let (done, over) = channel::<()>();
    let sleeping = thread::spawn(move || {
        number.send(gettid().as_raw_pid().unsigned_abs()).expect("heard");
        while over.try_recv() == Err(TryRecvError::Empty) {
            thread::sleep(Duration::from_millis(50));
        }
    });
    let asleep = numbers.recv().expect("started");

    let mut top = Top::of(std::process::id(), By::Thread).expect("may be watched");
    let mut looks = 0;
    let (report, _) = top.interval(LONG, &mut |duration| {
        thread::sleep(duration);
        looks += 1;
        if looks < 12 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let (locked, asleep) = (row(&report, locked), row(&report, asleep));
    let lck = |row: &TopRow| row.shares.lck.expect("one's own process can be seen");
    assert!(lck(locked) > 0.5 && locked.shares.slp < 0.1, "{locked:?}");
    assert_eq!(locked.waits_in.as_deref(), Some("futex"));
    assert!(asleep.shares.slp > 0.5 && lck(asleep) < 0.1, "{asleep:?}");
    assert_eq!(asleep.waits_in.as_deref(), Some("clock_nanosleep"));
    drop(held);
    drop(done);
    waiting.join().expect("ends");
    sleeping.join().expect("ends");
}

#[test]
fn a_process_that_does_not_exist_is_refused() {
    let refused = Top::of(u32::MAX, By::Thread).err().expect("no such process");
    assert_eq!(refused.to_string(), "there is no such process");
}
