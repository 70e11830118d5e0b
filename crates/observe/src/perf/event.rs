//! Asking the kernel for events.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use perf_event_open_sys::bindings as sys;
use perf_event_open_sys::{ioctls, perf_event_open};

use super::record::REGISTERS;

/// Bytes of the stack that come with a sample.
const STACK_BYTES: u32 = 4096;

/// Samples a second of processor time, while they are taken: usually, and where windows are brief.
/// What samples cost a program that is often given a processor is not them, but the timer that is
/// set each time: so it is set for a shorter time, and sooner each time.
const CLOCK_HZ: u64 = 997;
const BRIEF_CLOCK_HZ: u64 = 3989;

/// Samples a second of page faults, at most.
const FAULT_HZ: u64 = 97;

/// An event of one thread, and of those that it starts, on one processor.
pub(crate) struct Event {
    fd: OwnedFd,
}

/// What is to be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Where user code runs, from when it is enabled: a timer is set whenever a thread is given a
    /// processor, which costs microseconds.
    Clock {
        /// Whether it is for a brief time.
        is_brief: bool,
    },
    /// Where user code faults; and what threads begin, end and map.
    Faults,
    /// How often this address is run, as a number that is read.
    Passing(u64),
    /// How often the thread, and none that it starts, comes by this tracepoint of the kernel.
    Tracepoint(u64),
}

impl Event {
    /// Opens an event, which counts at once unless it is to be enabled; `cpu` of `None` counts on
    /// all of them.
    pub(crate) fn open(wanted: Wanted, tid: u32, cpu: Option<u32>) -> io::Result<Self> {
        let mut attr = attributes(wanted);
        let cpu = cpu.map_or(-1, u32::cast_signed);
        let flags = sys::PERF_FLAG_FD_CLOEXEC.into();
        // SAFETY: the attributes are valid, and outlive the call.
        let fd = unsafe { perf_event_open(&raw mut attr, tid.cast_signed(), cpu, -1, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given us the descriptor, which nobody else has.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// The number that samples of this event carry.
    pub(crate) fn id(&self) -> io::Result<u64> {
        let mut id = 0;
        // SAFETY: the kernel writes the number to a variable that outlives the call.
        check(unsafe { ioctls::ID(self.fd.as_raw_fd(), &raw mut id) })?;
        Ok(id)
    }

    /// Sends the records of this event to the ring of another on the same processor.
    pub(crate) fn output_to(&self, other: &Self) -> io::Result<()> {
        // SAFETY: both are descriptors of events that are open.
        check(unsafe { ioctls::SET_OUTPUT(self.fd.as_raw_fd(), other.fd.as_raw_fd()) })
    }

    /// Counts, or no longer, in all threads that it concerns.
    pub(crate) fn enable(&self, on: bool) -> io::Result<()> {
        let fd = self.fd.as_raw_fd();
        // SAFETY: it is a descriptor of an event that is open.
        check(unsafe { if on { ioctls::ENABLE(fd, 0) } else { ioctls::DISABLE(fd, 0) } })
    }

    /// What was counted.
    pub(crate) fn count(&self) -> io::Result<u64> {
        self.counted().map(|(count, _)| count)
    }

    /// What was counted, and for how long the threads ran meanwhile, in nanoseconds.
    pub(crate) fn counted(&self) -> io::Result<(u64, u64)> {
        let mut numbers = [0; 16];
        rustix::io::read(&self.fd, &mut numbers)?;
        let number = |at: usize| {
            let bytes = numbers[at..].first_chunk();
            bytes.copied().map_or(0, u64::from_ne_bytes)
        };
        Ok((number(0), number(8)))
    }

    /// The descriptor, to be mapped.
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn attributes(wanted: Wanted) -> sys::perf_event_attr {
    let mut attr = sys::perf_event_attr::default();
    attr.size = size_of::<sys::perf_event_attr>() as u32;
    attr.set_inherit(1);
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    attr.read_format = sys::PERF_FORMAT_TOTAL_TIME_RUNNING.into();
    match wanted {
        Wanted::Clock { is_brief } => {
            attr.config = sys::PERF_COUNT_SW_CPU_CLOCK.into();
            attr.set_disabled(1);
            sample(&mut attr, if is_brief { BRIEF_CLOCK_HZ } else { CLOCK_HZ });
        }
        Wanted::Faults => {
            attr.config = sys::PERF_COUNT_SW_PAGE_FAULTS.into();
            attr.set_task(1);
            attr.set_mmap(1);
            attr.set_mmap2(1);
            attr.set_mmap_data(1);
            sample(&mut attr, FAULT_HZ);
        }
        Wanted::Passing(address) => {
            attr.type_ = sys::PERF_TYPE_BREAKPOINT;
            attr.bp_type = sys::HW_BREAKPOINT_X;
            attr.__bindgen_anon_3.bp_addr = address;
            attr.__bindgen_anon_4.bp_len = size_of::<usize>() as u64;
            attr.set_disabled(1);
        }
        Wanted::Tracepoint(id) => {
            attr.type_ = sys::PERF_TYPE_TRACEPOINT;
            attr.config = id;
            attr.set_inherit(0);
            attr.set_exclude_kernel(0);
        }
    }
    attr
}

/// Asks for samples with registers and stacks, so many a second.
fn sample(attr: &mut sys::perf_event_attr, hz: u64) {
    attr.type_ = sys::PERF_TYPE_SOFTWARE;
    attr.set_freq(1);
    attr.set_use_clockid(1);
    attr.clockid = libc::CLOCK_MONOTONIC;
    attr.__bindgen_anon_1.sample_freq = hz;
    attr.sample_type = u64::from(
        sys::PERF_SAMPLE_IDENTIFIER
            | sys::PERF_SAMPLE_IP
            | sys::PERF_SAMPLE_TID
            | sys::PERF_SAMPLE_TIME
            | sys::PERF_SAMPLE_PERIOD
            | sys::PERF_SAMPLE_REGS_USER
            | sys::PERF_SAMPLE_STACK_USER,
    );
    attr.sample_regs_user = REGISTERS;
    attr.sample_stack_user = STACK_BYTES;
}
