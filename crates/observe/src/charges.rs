//! What the allocator costs a program, number by number: each with where it comes from and how
//! precise it is, or with the setting that would allow it.

use freehold_model::{Charge, Findings};

use crate::access::SAMPLES;
use crate::words::{held_bytes, mebibytes, percent, rate, share};

/// What would tell who frees what.
const COUNT: &str = "freehold diagnose --count -- CMD, which slows the command down a little";

/// Fewer objects freed than this may hardly have one among them that was followed.
const FEW_FREES: u64 = 1000;

const HEAPS: &str = "the heaps, read or asked for";

/// A number that was had.
struct Known {
    value: f64,
    words: String,
    source: &'static str,
    precision: String,
}

/// All numbers, always in the same order; `sees_waits` tells whether it could be seen what threads
/// wait for, and otherwise what would allow it.
pub(crate) fn charges(findings: &Findings, sees_waits: Result<(), &str>) -> Vec<Charge> {
    let samples = findings.samples.filter(|&samples| samples > 0).ok_or(match findings.samples {
        None => SAMPLES,
        Some(_) => "let it run for longer: none of the samples fell into the program",
    });
    let counts = findings.samples.map(|_| ()).ok_or(SAMPLES);
    vec![
        charge(
            "allocator_cpu",
            "share",
            "the allocator's share of the processor time",
            samples.map(|samples| cpu(findings, samples)),
        ),
        charge(
            "allocator_locks",
            "share",
            "the time that threads wait for the allocator's locks",
            sees_waits.map(|()| locks(findings)),
        ),
        charge(
            "mapping_calls",
            "per_second",
            "system calls that ask the system for memory, or give it back,",
            counts.map(|()| calls(findings)),
        ),
        charge(
            "allocator_faults",
            "per_second",
            "page faults in the allocator",
            counts.map(|()| faults(findings)),
        ),
        charge(
            "frees_elsewhere",
            "share",
            "objects freed by another thread than asked for them",
            elsewhere(findings),
        ),
        charge(
            "threads_begun",
            "per_second",
            "threads that begin",
            counts.map(|()| churn(findings)),
        ),
        charge("memory_in_use", "bytes", "memory that the program has in use", in_use(findings)),
        charge("memory_held", "bytes", "free memory that the allocator holds", held(findings)),
    ]
}

fn charge(name: &str, unit: &str, what: &str, known: Result<Known, &str>) -> Charge {
    let (name, unit) = (name.to_owned(), unit.to_owned());
    match known {
        Ok(Known { value, words, source, precision }) => Charge {
            name,
            value: Some(value),
            unit,
            words,
            source: Some(source.to_owned()),
            precision: Some(precision),
            remedy: None,
        },
        Err(remedy) => Charge {
            name,
            value: None,
            unit,
            words: format!("{what} could not be told"),
            source: None,
            precision: None,
            remedy: Some(remedy.to_owned()),
        },
    }
}

fn cpu(findings: &Findings, samples: u64) -> Known {
    let of_user = findings.allocator_cpu_share;
    let value = of_user * share(findings.user_seconds, findings.cpu_seconds());
    Known {
        value,
        words: format!(
            "the allocator takes {} of the processor time, without what the kernel does for it",
            percent(value)
        ),
        source: "samples of running code",
        precision: within(of_user, samples),
    }
}

fn locks(findings: &Findings) -> Known {
    let value = share(findings.allocator_lock_seconds, findings.thread_seconds);
    Known {
        value,
        words: format!(
            "{} of all threads' time goes into waiting for its locks, {} of the time in which they \
             had something to do",
            percent(value),
            percent(findings.of_busy(findings.allocator_lock_seconds))
        ),
        source: "schedstat, the clock; looks at waiting threads",
        precision: match findings.looks {
            0 => "no thread was seen waiting for a lock".to_owned(),
            looks => within(value, looks),
        },
    }
}

fn calls(findings: &Findings) -> Known {
    let called = findings.calls_per_second.values().sum::<f64>();
    let value = called.max(findings.mappings_per_second);
    Known {
        value,
        words: format!(
            "the program and its allocator make {} that ask the system for memory, or give it back",
            rate(value, "calls")
        ),
        source: "breakpoints, in short windows; records of mappings",
        precision: if called < value {
            recorded(findings, "exact for mappings, but for lost records; not all calls")
        } else {
            "at least: counting slows the calls down".to_owned()
        },
    }
}

/// How precise a number of records is: as said, if they were taken all the time.
fn recorded(findings: &Findings, always: &str) -> String {
    if findings.recorded_share < 0.995 {
        format!("recorded in {} of the time", percent(findings.recorded_share))
    } else {
        always.to_owned()
    }
}

fn faults(findings: &Findings) -> Known {
    let value = findings.faults_per_second * findings.allocator_fault_share;
    Known {
        value,
        words: format!(
            "{} within the allocator, of {:.0} in all",
            rate(value, "page faults"),
            findings.faults_per_second
        ),
        source: "stat; samples of faults",
        precision: "the sum is exact".to_owned(),
    }
}

fn elsewhere(findings: &Findings) -> Result<Known, &'static str> {
    let counted = findings.counted.ok_or(COUNT)?;
    let value = counted.elsewhere_share().ok_or(if counted.frees < FEW_FREES {
        "let it run until it has freed more"
    } else {
        "freehold sizes -- CMD, which follows all objects: the program uses so few addresses again \
         and again that one in 16 does not stand for the others"
    })?;
    Ok(Known {
        value,
        words: format!(
            "{} of the objects freed are freed by another thread than asked for them, of {}",
            percent(value),
            rate(share(counted.frees as f64, findings.seconds), "freed")
        ),
        source: "one address in 16, followed",
        precision: {
            // Of those that nothing stands for, all may be of the rarer kind.
            let unknown = (1.0 - counted.represented()) * value.max(1.0 - value);
            within_more(value, counted.followed, unknown)
        },
    })
}

fn churn(findings: &Findings) -> Known {
    let value = findings.threads_per_second;
    Known {
        value,
        words: rate(value, "threads begin"),
        source: "records of the kernel's events",
        precision: recorded(findings, "exact, but for lost records"),
    }
}

fn in_use(findings: &Findings) -> Result<Known, &'static str> {
    let counted = findings.counted.and_then(|counted| counted.live_bytes);
    let read = held_bytes(findings).map(|(in_use, _)| in_use);
    let (bytes, source, precision) = match (counted, read) {
        (Some(bytes), _) => (bytes, "counted in each call", "but for a thread's last 64 calls"),
        (None, Some(bytes)) => (bytes, HEAPS, "a moment's, near the end"),
        (None, None) => {
            return Err("freehold diagnose --count -- CMD; or, of the C library's heaps and \
             Freehold's, and with --ask those of jemalloc and tcmalloc, 16 MiB resident or more");
        }
    };
    Ok(Known {
        value: bytes as f64,
        words: format!("{} are in use", mebibytes(bytes)),
        source,
        precision: precision.to_owned(),
    })
}

fn held(findings: &Findings) -> Result<Known, &'static str> {
    let (_, free) = held_bytes(findings).ok_or(
        "an allocator whose heaps can be read, which are the C library's and Freehold's, or be \
         asked for them (freehold diagnose --ask -- CMD), which are jemalloc's and tcmalloc's; \
         with 16 MiB resident or more",
    )?;
    let resident = findings.resident_bytes.last().copied().unwrap_or(0);
    Ok(Known {
        value: free as f64,
        words: format!(
            "{} are free and held by the allocator, of {} resident",
            mebibytes(free),
            mebibytes(resident)
        ),
        source: "the heaps, read or asked for; statm",
        precision: "a moment's, near the end".to_owned(),
    })
}

/// How precise a share is that was found by so many looks: one standard deviation.
fn within(share: f64, looks: u64) -> String {
    within_more(share, looks, 0.0)
}

/// The same, and so much more.
fn within_more(share: f64, looks: u64, more: f64) -> String {
    let looks_at_least = looks.max(1) as f64;
    let share = share.clamp(0.0, 1.0);
    // A share of nothing, or of everything, is not exact either.
    let deviation = (share * (1.0 - share) / looks_at_least).sqrt().max(1.0 / looks_at_least);
    let deviation = deviation + more;
    format!("within {:.1} points, by {looks} looks", deviation.min(1.0) * 100.0)
}

#[cfg(test)]
mod tests {
    use freehold_model::{AllocationCalls, HeapContents};

    use super::*;

    fn findings() -> Findings {
        Findings {
            seconds: 2.0,
            thread_seconds: 16.0,
            user_seconds: 3.0,
            system_seconds: 1.0,
            allocator_lock_seconds: 8.0,
            looks: 400,
            samples: Some(100),
            allocator_cpu_share: 0.5,
            allocator_fault_share: 0.25,
            faults_per_second: 4000.0,
            threads_per_second: 12.0,
            calls_per_second: [("mmap".to_owned(), 30.0), ("munmap".to_owned(), 20.0)].into(),
            resident_bytes: vec![100 << 20],
            ..Findings::default()
        }
    }

    fn value(charges: &[Charge], name: &str) -> Option<f64> {
        charges.iter().find(|charge| charge.name == name).expect("always there").value
    }

    #[test]
    fn every_number_has_a_source_and_a_precision_or_a_remedy() {
        let counted =
            AllocationCalls { frees: 800, followed: 50, elsewhere: 10, ..Default::default() };
        let heap =
            HeapContents { used_bytes: 40 << 20, free_bytes: 30 << 20, ..HeapContents::default() };
        let all = Findings { counted: Some(counted), heap: Some(heap), ..findings() };
        let known = charges(&all, Ok(()));
        let expected = [0.375, 0.5, 50.0, 1000.0, 0.2, 12.0, 41_943_040.0, 31_457_280.0];
        let values: Vec<_> = known.iter().filter_map(|charge| charge.value).collect();
        assert_eq!(values, expected);
        assert!(known.iter().all(|it| it.source.is_some() && it.precision.is_some()), "{known:?}");
        let none = Findings { samples: None, ..findings() };
        let unknown = charges(&none, Err("be root"));
        assert_eq!(unknown.len(), known.len());
        for charge in &unknown {
            assert!(charge.value.is_none() && charge.remedy.is_some(), "{charge:?}");
        }
    }

    #[test]
    fn followed_objects_that_do_not_stand_for_the_others_tell_nothing_of_them() {
        let told = |frees, followed, elsewhere| {
            let counted = AllocationCalls { frees, followed, elsewhere, ..Default::default() };
            let told = charges(&Findings { counted: Some(counted), ..findings() }, Ok(()));
            told.into_iter().find(|charge| charge.name == "frees_elsewhere").expect("there")
        };
        let even = told(16_000, 1000, 500);
        assert_eq!(even.precision.expect("known"), "within 1.6 points, by 1000 looks");
        let wide = told(20_000, 1000, 500);
        assert_eq!(wide.precision.expect("known"), "within 11.6 points, by 1000 looks");
        for few in [told(416_000, 600, 600), told(16_000, 9000, 9000)] {
            assert_eq!(few.value, None);
            assert!(few.remedy.expect("one").contains("freehold sizes"));
        }
    }

    #[test]
    fn without_samples_of_the_program_nothing_is_said_of_its_processor_time() {
        let none = Findings { samples: Some(0), ..findings() };
        let told = charges(&none, Ok(()));
        assert_eq!(value(&told, "allocator_cpu"), None);
        assert_eq!(value(&told, "threads_begun"), Some(12.0));
    }

    #[test]
    fn what_was_recorded_for_a_part_of_the_time_is_not_called_exact() {
        let precision = |findings, name: &str| {
            let told = charges(&findings, Ok(()));
            told.into_iter().find(|charge| charge.name == name).expect("there").precision
        };
        let always = Findings { recorded_share: 1.0, mappings_per_second: 80.0, ..findings() };
        let partly = Findings { recorded_share: 0.25, ..always.clone() };
        for name in ["threads_begun", "mapping_calls"] {
            assert!(precision(always.clone(), name).expect("known").starts_with("exact"));
            let said = precision(partly.clone(), name).expect("known");
            assert_eq!(said, "recorded in 25 % of the time", "{name}");
        }
    }

    #[test]
    fn few_looks_at_nothing_are_no_proof_that_there_is_nothing() {
        assert_eq!(within(0.0, 4), "within 25.0 points, by 4 looks");
        assert_eq!(within(0.5, 100), "within 5.0 points, by 100 looks");
    }
}
