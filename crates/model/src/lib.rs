//! What the toolbox records: result types and the schema of their files.
//!
//! Everything the command writes with `--json` is one of these types, and everything a measuring
//! child prints is one of them too. This crate performs no input and no output: it must not know
//! where a document comes from, how a child is run, or how a table looks.
#![forbid(unsafe_code)]

mod allocator;
mod bench;
mod compare;
mod diagnosis;
mod diff;
mod evidence;
mod explain;
mod grid;
mod harness;
mod indices;
mod locks;
mod measure;
mod pairs;
mod process;
mod provenance;
mod replay;
mod reproduce;
mod row;
mod schema;
mod stored;
mod summary;
mod syscalls;
mod timeline;
mod top;
mod trace;

pub use allocator::{Allocator, AllocatorList, Library, Missing, Origin};
pub use bench::{BenchDocument, Case, Failure, FailureKind, Outcome, Plan, Purpose, Run, Skipped};
pub use compare::{
    Advice, Choice, CompareCell, CompareDocument, ComparePlan, CompareSummary, CountedCalls, Load,
    MeasureSummary, Moment, Parameters, Recommendation, Trial, TrialOutcome, TrialRun,
    trial_series,
};
pub use diagnosis::{AllocationCalls, Cause, Charge, Confidence, Diagnosis, Findings, Portion};
pub use diff::{Change, DiffDocument, RuleCheck, RuleOutcome, Side};
pub use evidence::{Cost, Gap, Source};
pub use explain::{
    AllocatorFigures, HeapContents, HugeSlack, MemoryPart, MemoryReport, MemoryRow, MemoryUse,
    PartKind,
};
pub use grid::{
    GridCase, GridCell, GridDocument, GridOutcome, GridOverall, GridPart, GridPlan, GridRun,
    GridSummary, Shard,
};
pub use harness::{
    Better, Calls, Column, Detail, FalseSharing, HarnessRun, Metric, ParamValue, Params, Reading,
    Readings,
};
pub use locks::{Frame, LocksReport, SleepRow, WaitKind, WaitRow, WaitSite};
pub use measure::{Finding, Kind, MEASURES, Measure, Measured, Series, Unit};
pub use pairs::{
    End, Handoff, Length, Memory, PairsParams, PairsRun, Proof, Resident, Sample, Sizes, Usage,
    Waiting,
};
pub use process::{Linkage, ProcessReport, Provider, RunReport, Verdict};
pub use provenance::{HugePages, Machine, Provenance};
pub use replay::{
    ReplayCalls, ReplayDocument, ReplayOutcome, ReplayRound, ReplayRun, ReplaySummary, Touch,
};
pub use reproduce::{
    Chart, Claim, ClaimVerdict, Numbers, Panel, PanelColumn, ReproducedCase, ReproducedOutcome,
    ReproducedRun, Reproduction, Whose,
};
pub use row::{GridRow, RowNumbers};
pub use schema::{
    Document, SCHEMA_VERSION, SchemaError, from_json, kind_of, to_json, to_json_line,
};
pub use stored::Stored;
pub use summary::{CellSummary, Interval, OverallRatio, Spread, Standing, Summary};
pub use syscalls::{CallRow, SyscallsReport, ThreadCalls};
pub use timeline::{ThreadBar, TimeColumn, Timeline};
pub use top::{Shares, TopReport, TopRow};
pub use trace::{
    Amount, Bin, Fates, LinearHistogram, Peak, ProcessRecording, RecordDocument, RecordingCost,
    Share, SizeCount, SizesDocument, TraceCalls,
};
