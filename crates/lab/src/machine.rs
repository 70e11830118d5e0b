//! What a result has to say about the machine it was measured on. It reads the kernel's files
//! and must not know what is measured; it names no host and no user.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs, thread};

use freehold_model::{HugePages, Machine};
use rustix::{param, system};

use crate::find::PEERS;

const KIB: u64 = 1024;

/// Beginnings of the names of variables that change what an allocator, the loader or the C
/// library does.
const TUNING: [&str; 18] = [
    "FREEHOLD_",
    "GLIBC_TUNABLES",
    "GPERFTOOLS_",
    "HOARD_",
    "JE_MALLOC_CONF",
    "LD_AUDIT",
    "LD_BIND_NOW",
    "LD_PRELOAD",
    "MALLOC_",
    "MIMALLOC_",
    "MTCHUNKSIZE",
    "_RJEM_MALLOC_CONF",
    "RPMALLOC_",
    "SCUDO_",
    "SNMALLOC_",
    "TBB_",
    "TCMALLOC_",
    "PERFTOOLS_",
];

/// Those among them that tell this command, or `deploy/slurm.sh`, where something is.
const OURS: [&str; 3] = [PEERS, "FREEHOLD_DEBUG_DIRS", "FREEHOLD_RESULTS"];

/// Describes this machine and its settings, as they are now.
pub fn describe() -> Machine {
    let uname = system::uname();
    let text = |value: &std::ffi::CStr| value.to_string_lossy().into_owned();
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let limit = read_word("/sys/fs/cgroup/memory.max").and_then(|word| word.parse::<u64>().ok());
    let available = kib_field(&memory, "MemAvailable:");
    Machine {
        kernel: format!("{} {}", text(uname.sysname()), text(uname.release())),
        architecture: text(uname.machine()),
        cpu: cpu_model(&cpus),
        cpus_online: count_cpus(&read_word("/sys/devices/system/cpu/online").unwrap_or_default()),
        cpus_usable: usable_cpus(),
        cpu_governor: read_word("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        cgroup_cpu_max: read_line("/sys/fs/cgroup/cpu.max"),
        memory_total_bytes: kib_field(&memory, "MemTotal:"),
        memory_available_bytes: limit.map_or(available, |limit| limit.min(available)),
        page_bytes: param::page_size() as u64,
        huge_pages: HugePages {
            enabled: chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
            defrag: chosen("/sys/kernel/mm/transparent_hugepage/defrag"),
        },
        overcommit: read_word("/proc/sys/vm/overcommit_memory"),
    }
}

/// Processors that this process may use.
pub fn usable_cpus() -> u32 {
    thread::available_parallelism().map_or(1, |count| count.get() as u32)
}

/// The one-minute load average.
pub fn load_average() -> Option<f64> {
    read_word("/proc/loadavg")?.parse().ok()
}

/// Processor time of all children that have ended, and of theirs, in seconds; in steps of the
/// kernel's clock tick.
pub fn children_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    children_ticks(&stat) as f64 / param::clock_ticks_per_second() as f64
}

/// The two fields of a `stat` file that count children's time.
fn children_ticks(stat: &str) -> u64 {
    // The name of the program, in parentheses, may hold anything.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
    fields.skip(13).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}

/// The variables of the environment that tune an allocator, the loader or the C library.
pub fn tuning_environment() -> BTreeMap<String, String> {
    let own = env::vars_os().filter_map(|(name, value)| {
        Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
    });
    own.filter(|(name, _)| tunes(name)).collect()
}

/// Whether a variable of this name changes what an allocator, the loader or the C library does.
fn tunes(name: &str) -> bool {
    !OURS.contains(&name) && TUNING.iter().any(|prefix| name.starts_with(prefix))
}

/// The time, as `2026-02-28T23:59:59Z`.
pub fn now_utc() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    utc(since.as_secs())
}

/// Seconds since 1970 as a date and a time of day, by the calendar's cycle of 400 years. Years
/// begin in March here, so that the leap day is the last of its year.
fn utc(seconds: u64) -> String {
    const DAYS_IN_CYCLE: u64 = 146_097;
    const DAYS_TO_1970_FROM_MARCH_OF_YEAR_0: u64 = 719_468;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let days = days + DAYS_TO_1970_FROM_MARCH_OF_YEAR_0;
    let (cycle, day) = (days / DAYS_IN_CYCLE, days % DAYS_IN_CYCLE);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = 400 * cycle + year + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

fn read_line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().next().map(|line| line.trim().to_owned())
}

fn read_word(path: &str) -> Option<String> {
    read_line(path)?.split_ascii_whitespace().next().map(str::to_owned)
}

/// The choice that the kernel marks with brackets.
fn chosen(path: &str) -> Option<String> {
    bracketed(&read_line(path)?)
}

fn bracketed(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// A field in KiB of one of the kernel's files, in bytes; 0 where there is none.
pub(crate) fn kib_field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0) * KIB
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    let value = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    value("model name").or_else(|| value("Processor")).or_else(|| value("CPU part"))
}

/// The number of processors in a list such as `0-3,8`.
fn count_cpus(list: &str) -> u32 {
    let ranges = list.split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(last.trim().parse::<u32>().ok()? - first.trim().parse::<u32>().ok()? + 1)
    });
    ranges.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn childrens_time_is_found_behind_any_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 1 2 3 4 5 6 70 8 20 0 1 0 99 1 2";
        assert_eq!(children_ticks(stat), 78);
        assert_eq!(children_ticks(""), 0);
    }

    #[test]
    fn what_tells_this_command_where_to_look_tunes_nothing() {
        assert!(tunes("FREEHOLD_BACKGROUND"));
        assert!(tunes("MALLOC_ARENA_MAX"));
        assert!(!OURS.into_iter().any(tunes));
        assert!(tunes("FREEHOLD_DEBUG"));
        assert!(!tunes("HOME"));
    }

    #[test]
    fn dates_follow_the_calendar() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_735_689_599), "2024-12-31T23:59:59Z");
        assert_eq!(utc(4_107_542_400), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn kernel_files_are_read_as_they_are_written() {
        assert_eq!(bracketed("always [madvise] never").as_deref(), Some("madvise"));
        assert_eq!(kib_field("MemTotal:  16 kB\nMemAvailable:  4 kB\n", "MemAvailable:"), 4096);
        assert_eq!(count_cpus("0-3,8"), 5);
        assert_eq!(count_cpus("0"), 1);
        let info = "processor : 0\nmodel name\t: A Fine CPU @ 3 GHz\n";
        assert_eq!(cpu_model(info).as_deref(), Some("A Fine CPU @ 3 GHz"));
    }

    #[test]
    fn this_machine_has_processors_and_memory() {
        let machine = describe();
        assert!(machine.cpus_usable >= 1);
        assert!(machine.memory_total_bytes > 0);
        assert!(machine.page_bytes >= 4096);
        assert!(machine.kernel.starts_with("Linux "));
    }
}
