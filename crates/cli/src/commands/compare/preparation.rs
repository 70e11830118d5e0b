//! From the options of a comparison to everything that is decided before its first run.

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use freehold_lab::compare::{Comparison, filled, parameters, unmentioned};
use freehold_lab::trial::{Accepted, Job, Reaped, Setting, TrialRunner};
use freehold_lab::{Known, Redactor, SYSTEM, launch};
use freehold_model::{
    Allocator, ComparePlan, Load, Parameters, Provenance, Trial, TrialOutcome, Usage,
};
use freehold_workloads::usage;

use super::{Compare, MOST_ROUNDS, ROUNDS};
use crate::catalogue::Catalogue;
use crate::exit::{Exit, Failure};
use crate::{advice, provenance, start, ui};

/// Everything decided before the first run.
pub(super) struct Prepared {
    pub(super) comparison: Comparison,
    pub(super) runner: TrialRunner,
    pub(super) provenance: Provenance,
    pub(super) redactor: Redactor,
}

impl Prepared {
    /// What would be run.
    pub(super) fn outline(&self) -> String {
        let Comparison { plan, jobs, allocators, .. } = &self.comparison;
        let names: Vec<_> = allocators.iter().map(|own| own.name.as_str()).collect();
        let mut outline = format!(
            "{} rounds, after {} of warm-up, of each of these under {} in random order:\n",
            plan.repeat,
            plan.warmup,
            names.join(", ")
        );
        for job in jobs {
            let words: Vec<_> = job.command.iter().map(|word| word.to_string_lossy()).collect();
            // Writing to a string cannot fail.
            let _ = writeln!(outline, "  {}", self.redactor.text(&words.join(" ")));
            if let Some(load) = &job.load {
                let _ = writeln!(outline, "    load: {}", self.redactor.text(&load.command));
            }
        }
        outline
    }
}

/// A plan without secrets.
pub(super) fn redacted(plan: &ComparePlan, redactor: &Redactor) -> ComparePlan {
    let text = |text: &Option<String>| text.as_deref().map(|text| redactor.text(text));
    let load = |load: &Load| Load {
        command: redactor.text(&load.command),
        ready: text(&load.ready),
        ..load.clone()
    };
    ComparePlan {
        command: redactor.words(&plan.command),
        load: plan.load.as_ref().map(load),
        prepare: text(&plan.prepare),
        cleanup: text(&plan.cleanup),
        cases: plan.cases.iter().map(|case| without_secrets(case, redactor)).collect(),
        ..plan.clone()
    }
}

/// The parameters of a case without secrets: they are shown as the name of the case.
fn without_secrets(case: &Parameters, redactor: &Redactor) -> Parameters {
    let hidden = |(name, value): (&String, &String)| {
        let shown = redactor.text(&format!("{name}={value}"));
        let value = shown.split_once('=').map_or(String::new(), |(_, value)| value.to_owned());
        (name.clone(), value)
    };
    case.iter().map(hidden).collect()
}

/// Takes secrets out of what programs have said before they failed.
pub(super) fn redact_failures(trials: &mut [Trial], redactor: &Redactor) {
    for trial in trials {
        if let TrialOutcome::Failed(failure) = &mut trial.outcome {
            failure.detail = redactor.text(&failure.detail);
        }
    }
}

impl Compare {
    pub(super) fn prepare(&self) -> Result<Prepared, Failure> {
        let provenance = provenance::begin(self.rounds.seed)?;
        let plan = self.plan()?;
        let jobs: Vec<Job> = plan.cases.iter().map(|case| self.job(&plan, case)).collect();
        let programs: Result<Vec<PathBuf>, _> = jobs.iter().map(program).collect();
        let programs = programs?;
        let (allocators, reference) = self.chosen(&programs)?;
        let (allocators, settings) = self.settings(&programs, allocators)?;
        let reference = index_of(&reference, &allocators)?;
        let time_limit = self.rounds.time_limit.map(Duration::from_secs_f64);
        let seed = self.rounds.seed;
        let comparison =
            Comparison { plan, jobs, allocators, settings, reference, seed, time_limit };
        let runner = TrialRunner {
            reap,
            timeout: Duration::from_secs_f64(self.rounds.timeout),
            accepted: self.accepted()?,
            shows_output: self.around.show_output,
        };
        Ok(Prepared {
            comparison,
            runner,
            provenance,
            redactor: Redactor::new(&self.output.redact),
        })
    }

    fn plan(&self) -> Result<ComparePlan, Failure> {
        let command: Vec<String> =
            self.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let (around, server) = (&self.around, &self.server);
        let others = [&around.prepare, &around.cleanup, &server.load, &server.ready];
        let others = others.into_iter().flatten();
        let texts: Vec<&str> = command.iter().chain(others).map(String::as_str).collect();
        if let Some(name) = unmentioned(&around.lists, &texts) {
            let message = format!("there is a list of {name}, but no command mentions {{{name}}}");
            return Err(Failure::new(Exit::Usage, message));
        }
        let most = if self.rounds.until.is_some() { MOST_ROUNDS } else { ROUNDS };
        Ok(ComparePlan {
            load: self.load()?,
            prepare: around.prepare.clone(),
            cleanup: around.cleanup.clone(),
            cases: parameters(&around.lists),
            warmup: self.rounds.warmup,
            repeat: self.rounds.repeat.unwrap_or(most),
            until: self.rounds.until,
            memory_weight: self.rounds.memory_weight,
            command,
        })
    }

    fn load(&self) -> Result<Option<Load>, Failure> {
        let server = &self.server;
        let Some(command) = &server.load else { return Ok(None) };
        if server.port.is_none() && server.ready.is_none() {
            let message = "with --load it must be known when the server is ready";
            return Err(Failure::new(Exit::Usage, message).hint(advice::ready()));
        }
        Ok(Some(Load {
            command: command.clone(),
            port: server.port,
            ready: server.ready.clone(),
            settle_seconds: server.settle,
        }))
    }

    /// What is run in one case.
    fn job(&self, plan: &ComparePlan, case: &Parameters) -> Job {
        let fill = |text: &String| filled(text.as_ref(), case).to_string_lossy().into_owned();
        let load = plan.load.as_ref().map(|load| Load {
            command: fill(&load.command),
            ready: load.ready.as_ref().map(fill),
            ..load.clone()
        });
        Job {
            command: self.command.iter().map(|word| filled(word, case)).collect(),
            input: self.around.input.clone(),
            load,
            prepare: plan.prepare.as_ref().map(fill),
            cleanup: plan.cleanup.as_ref().map(fill),
        }
    }

    /// The allocators, and the name of the one that the others are compared with.
    fn chosen(&self, programs: &[PathBuf]) -> Result<(Vec<Allocator>, String), Failure> {
        let catalogue = Catalogue::new(&self.search)?;
        let mut chosen = if self.allocators.is_empty() {
            catalogue.representative()?
        } else {
            catalogue.get_all(&self.allocators)?
        };
        if let Some(name) = &self.reference {
            return Ok((chosen, name.clone()));
        }
        let preload = env::var_os(launch::PRELOAD).unwrap_or_default();
        let own = launch::foreseen(&programs[0], &preload);
        let is_own = |own: &Path, other: &Allocator| Path::new(&other.library.path) == own;
        let among = |chosen: &[Allocator]| {
            let own = own.as_deref()?;
            Some(chosen.iter().find(|other| is_own(own, other))?.name.clone())
        };
        if among(&chosen).is_none() && self.allocators.is_empty() {
            // What the command has now may be none of those that are found by name.
            let found = own.as_ref().and_then(|own| catalogue.get(&own.to_string_lossy()).ok());
            chosen.extend(found);
        }
        let system = || chosen.iter().find(|other| other.name == SYSTEM);
        let fallback = system().or(chosen.first()).map(|other| other.name.clone());
        let reference = among(&chosen).or(fallback).unwrap_or_default();
        Ok((chosen, reference))
    }

    /// The allocators that can be live in all programs, with what makes them so. One that was
    /// asked for by name and cannot is an error.
    fn settings(
        &self,
        programs: &[PathBuf],
        allocators: Vec<Allocator>,
    ) -> Result<(Vec<Allocator>, Vec<Vec<Setting>>), Failure> {
        let mut fit = Vec::new();
        let mut by_case = vec![Vec::new(); programs.len()];
        let mut last_reason = String::new();
        for allocator in allocators {
            let settings: Result<Vec<Setting>, String> =
                programs.iter().map(|program| Setting::new(program, &allocator)).collect();
            match settings {
                Ok(settings) => {
                    for (case, setting) in by_case.iter_mut().zip(settings) {
                        case.push(setting);
                    }
                    fit.push(allocator);
                }
                Err(reason) if self.allocators.is_empty() => last_reason = reason,
                Err(reason) => {
                    let message = format!("{}: {reason}", allocator.name);
                    return Err(Failure::new(Exit::NotLive, message));
                }
            }
        }
        if !last_reason.is_empty() {
            if fit.len() < 2 {
                return Err(Failure::new(Exit::NotLive, last_reason));
            }
            ui::warn(&last_reason);
        }
        Ok((fit, by_case))
    }

    fn accepted(&self) -> Result<Accepted, Failure> {
        let Some(statuses) = &self.around.ignore_failure else { return Ok(Accepted::Success) };
        if statuses.iter().any(|status| status == "any") {
            return Ok(Accepted::Any);
        }
        let list: Result<Vec<i32>, _> = statuses.iter().map(|status| status.parse()).collect();
        list.map(Accepted::Statuses).map_err(|_| {
            let message =
                format!("--ignore-failure={}: not a list of statuses", statuses.join(","));
            Failure::new(Exit::Usage, message)
        })
    }
}

fn program(job: &Job) -> Result<PathBuf, Failure> {
    let name: &OsString = &job.command[0];
    launch::resolve(name).filter(|path| path.exists()).ok_or_else(|| start::not_found(name))
}

fn index_of(name: &str, allocators: &[Allocator]) -> Result<usize, Failure> {
    let known = Known::named(name).map(|known| known.name);
    let is_it =
        |own: &Allocator| own.name == name || (known.is_some() && own.family.as_deref() == known);
    allocators.iter().position(is_it).ok_or_else(|| {
        let message = format!("the reference \"{name}\" is not among the allocators");
        let names: Vec<_> = allocators.iter().map(|own| own.name.as_str()).collect();
        Failure::new(Exit::Usage, message).hint(format!("they are {}", names.join(", ")))
    })
}

/// Waits for a child, for the laboratory.
fn reap(pid: u32) -> std::io::Result<Reaped> {
    let usage::Reaped { status, usage, major_faults, peak_rss_bytes } = usage::reap(pid)?;
    let usage = Usage {
        user_seconds: usage.user_seconds,
        system_seconds: usage.system_seconds,
        minor_faults: usage.minor_faults,
        voluntary_switches: usage.voluntary_switches,
        involuntary_switches: usage.involuntary_switches,
    };
    Ok(Reaped { status, usage, major_faults, peak_rss_bytes })
}
