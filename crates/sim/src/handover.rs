//! Which part of a shared request is this engine's, and where the other part is.

use longboat_serving::{ArgsError, Flag, Job, Part};

use crate::{Args, engine::storage::Storage};

/// SGLang's engines know their part from their command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Prefill,
    Decode,
}

/// What a request gets of the caches of other engines.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Caches<'a> {
    /// Whether the prompt's cache has come from the engine that the request names.
    pub(crate) has_come: bool,
    /// Where blocks of the prompt are looked for; none where nothing is shared, or where what is there does not come.
    pub(crate) storage: Option<&'a Storage>,
}

// === impl Caches ===

impl<'a> Caches<'a> {
    /// Of this request: everything that is there, or nothing, as faults go.
    pub(crate) fn of(job: &Job, args: &'a Args) -> Self {
        if args.faults.lost.strikes() {
            return Self::default();
        }
        let has_come = job.part == Part::Decode || source(job).is_some();
        Self { has_come, storage: args.storage.as_ref() }
    }
}

/// Reads the mode; `null` is none.
pub(crate) fn mode(flag: &Flag) -> Result<Option<Mode>, ArgsError> {
    match flag.text()? {
        "prefill" => Ok(Some(Mode::Prefill)),
        "decode" => Ok(Some(Mode::Decode)),
        "null" => Ok(None),
        other => Err(flag.invalid(format!("`{other}` is no mode; expected prefill, decode or null"))),
    }
}

/// Gives two engines that meet their parts: nothing in the request says which is whose.
pub(crate) fn divide(mode: Option<Mode>, job: &mut Job) {
    let Some((meeting, mode)) = job.handover.meeting.clone().zip(mode) else { return };
    match mode {
        Mode::Prefill => {
            job.part = Part::Prefill;
            for prompt in &mut job.prompts {
                prompt.limit = 1;
            }
        }
        Mode::Decode => {
            job.part = Part::Decode;
            job.handover.cache_host = Some(meeting);
        }
    }
}

/// The host from which the prompt's cache comes, or a part of it.
pub(crate) fn source(job: &Job) -> Option<&str> {
    let handover = &job.handover;
    match job.part {
        Part::Decode => handover.cache_host.as_deref(),
        Part::Whole | Part::Prefill => handover.pull_host.as_deref(),
    }
}
