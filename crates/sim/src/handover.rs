//! Determines this engine's part of a request that two engines divide, and the location of the other part.

use longboat_serving::{ArgsError, Flag, Job, Part};

/// The part of an SGLang engine, which its command line sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Prefill,
    Decode,
}

/// Reads the mode. `null` means none.
pub(crate) fn mode(flag: &Flag) -> Result<Option<Mode>, ArgsError> {
    match flag.text()? {
        "prefill" => Ok(Some(Mode::Prefill)),
        "decode" => Ok(Some(Mode::Decode)),
        "null" => Ok(None),
        other => Err(flag.invalid(format!("unknown mode `{other}`; expected prefill, decode or null"))),
    }
}

/// Sets the part of an engine of SGLang. Both engines get the same request, which does not name the parts.
pub(crate) fn split_between_engines(mode: Option<Mode>, job: &mut Job) {
    let Some((host, mode)) = job.handover.bootstrap_host.clone().zip(mode) else { return };
    match mode {
        Mode::Prefill => {
            job.part = Part::Prefill;
            for prompt in &mut job.prompts {
                prompt.limit = 1;
            }
        }
        Mode::Decode => {
            job.part = Part::Decode;
            job.handover.cache_host = Some(host);
        }
    }
}

/// Returns the host from which the prompt's KV cache, or a part of it, is received.
pub(crate) fn source(job: &Job) -> Option<&str> {
    let handover = &job.handover;
    match job.part {
        Part::Decode => handover.cache_host.as_deref(),
        Part::Whole | Part::Prefill => handover.pull_host.as_deref(),
    }
}
