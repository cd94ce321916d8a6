//! Turns what the controller observed into two verdicts: one about the response, one about the transfer of KV cache.

use longboat_api::reasons::condition as reason;

use super::{
    answer::{self, Answer, Engines, ProbeError, TokenResponse},
    counters::Counters,
    probe::{PodAddress, Probe, Role},
    report::Outcome,
    verdict::Verdict,
};

/// The metrics of a pod before and after the request, or why they cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub struct PodMetrics {
    /// Before the request; `None` if they were not read.
    pub before: Option<Counters>,
    /// After the request.
    pub after: Result<Counters, String>,
}

/// Everything that the controller observed of one request.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeObservation {
    /// The response.
    pub answer: Result<Answer, ProbeError>,
    /// The metrics of [`Probe::pods`] in the same order; empty if they were not read.
    pub pods: Vec<PodMetrics>,
    /// When the response came, in seconds since 1970.
    pub at: i64,
}

/// Judges what the controller observed.
pub fn judge(probe: &Probe, seen: &ProbeObservation) -> Outcome {
    let verdict = answer::judge(probe, &seen.answer, engines(probe, seen));
    let transfer = probe.disaggregated.then(|| match &verdict {
        Ok(received) => transfer(probe, seen, received),
        Err(_) => Verdict::unknown(
            reason::PROOF_PENDING,
            "no request succeeded, so no KV cache could be transferred: see condition ServingProven"
                .to_owned(),
        ),
    });
    let serving = verdict.map_or_else(|broken| broken, |received| received.verdict);
    Outcome { id: probe.id.clone(), at: seen.at, serving, transfer }
}

/// Whether reading the metrics again cannot change the conditions. Engines update their counters at the end of a step.
pub fn is_conclusive(probe: &Probe, seen: &ProbeObservation) -> bool {
    !probe.disaggregated || judge(probe, seen).transfer.is_none_or(|verdict| verdict.is_true())
}

/// Whether the pods that answer requests respond at their own addresses.
fn engines(probe: &Probe, seen: &ProbeObservation) -> Engines {
    let decode_pods = || of_role(probe, seen, Role::Decode);
    if decode_pods().any(|(_, pod)| pod.after.is_ok()) {
        Engines::Answer
    } else if decode_pods().next().is_some() {
        Engines::Silent
    } else {
        Engines::Unknown
    }
}

fn of_role<'a>(
    probe: &'a Probe,
    seen: &'a ProbeObservation,
    role: Role,
) -> impl Iterator<Item = (&'a PodAddress, &'a PodMetrics)> {
    probe.pods.iter().zip(&seen.pods).filter(move |(pod, _)| pod.role == role)
}

/// The counters of all pods of a role, added up.
#[derive(Default)]
struct Totals {
    grown: Counters,
    counts_transfers: bool,
    readable: usize,
    unreadable: Option<String>,
}

impl Totals {
    fn of(probe: &Probe, seen: &ProbeObservation, role: Role) -> Self {
        let mut totals = Self::default();
        for (address, pod) in of_role(probe, seen, role) {
            match (&pod.before, &pod.after) {
                (Some(before), Ok(after)) => {
                    totals.grown = totals.grown.plus(&after.since(before));
                    totals.counts_transfers |= after.counts_transfers();
                    totals.readable += 1;
                }
                (_, Err(why)) => totals.unreadable = Some(format!("{}: {why}", address.name)),
                (None, Ok(_)) => {
                    totals.unreadable =
                        Some(format!("{}: its metrics were not read before the request", address.name));
                }
            }
        }
        totals
    }
}

fn has_grown(grown: Option<f64>) -> bool {
    grown.is_some_and(|grown| grown > 0.0)
}

/// What shows that the decode side received KV cache.
fn transfer_evidence(decode: &Totals, received: &TokenResponse) -> Option<String> {
    let (prompt, cached) = (received.prompt_tokens, received.cached_tokens);
    // No cache holds any of the prompt, so only a transfer can have brought most of it.
    if prompt > 0 && cached * 2 >= prompt {
        return Some(format!(
            "the decode pod had {cached} of {prompt} tokens of a new prompt in its cache \
             (usage.prompt_tokens_details.cached_tokens)"
        ));
    }
    let counters = [
        ("vllm:external_prefix_cache_hits", decode.grown.external_tokens),
        ("vllm:nixl_bytes_transferred", decode.grown.nixl_bytes),
        ("vllm:nixl_xfer_time_seconds", decode.grown.nixl_transfers),
    ];
    let (series, _) = counters.iter().find(|(_, grown)| has_grown(*grown))?;
    Some(format!("the decode pods received KV cache from other engines (metric {series} increased)"))
}

/// Whether the decode side used what prefill computed, and which metric shows it.
fn transfer(probe: &Probe, seen: &ProbeObservation, received: &TokenResponse) -> Verdict {
    let prompt = received.prompt_tokens;
    let (decode, prefill) = (Totals::of(probe, seen, Role::Decode), Totals::of(probe, seen, Role::Prefill));
    // vLLM counts the tokens that it means to receive before it receives them, and does not take them back if it has to compute
    // them (`kv_load_failure_policy`). So cached tokens and hits are no evidence if transfers failed and none succeeded.
    let has_moved = has_grown(decode.grown.nixl_bytes) || has_grown(decode.grown.nixl_transfers);
    if has_grown(decode.grown.nixl_failures) && !has_moved {
        return Verdict::no(
            reason::TRANSFER_FAILED,
            format!(
                "the decode pods reported failed transfers (metric vllm:nixl_num_failed_transfers \
                 increased; {}) and computed the prompt again: check for a blocked port between the pods \
                 (VLLM_NIXL_SIDE_CHANNEL_PORT, by default 5600), and check their network devices",
                probe.connectors
            ),
        );
    }
    if let Some(message) = transfer_evidence(&decode, received) {
        return Verdict::yes(reason::KV_TRANSFERRED, message);
    }
    if decode.readable == 0 || (prefill.readable == 0 && !decode.counts_transfers) {
        let why = decode.unreadable.or(prefill.unreadable);
        let why = why.unwrap_or_else(|| "the service has no prefill pod, or no decode pod".to_owned());
        return Verdict::unknown(
            reason::METRICS_UNREADABLE,
            format!(
                "cannot find out whether KV cache was transferred, because the metrics of a pod cannot be \
                 read ({why})"
            ),
        );
    }
    let left_out = match probe.left_out {
        0 => String::new(),
        1 => "; 1 pod was not checked".to_owned(),
        pods => format!("; {pods} pods were not checked"),
    };
    // `None` says that an engine has no such counter, or has restarted.
    if prefill.grown.prompt_tokens == Some(0.0) {
        let why = if probe.has_picker {
            "the picker did not choose one, or the decode pods have no routing sidecar. Check the prefill \
             profile and its decider in the configuration of the picker, and check spec.template for the \
             sidecar"
        } else {
            "the service has no picker to choose one. Set spec.router.scheduler"
        };
        return Verdict::no(
            reason::PREFILL_NOT_USED,
            format!(
                "no prefill pod computed a prompt of {prompt} tokens (metric vllm:prompt_tokens did not \
                 increase{left_out}): {why}"
            ),
        );
    }
    if decode.counts_transfers {
        return Verdict::no(
            reason::KV_NOT_TRANSFERRED,
            format!(
                "prefill worked, but the decode pods computed the prompt of {prompt} tokens again (metric \
                 vllm:external_prefix_cache_hits did not increase{left_out}; {}): compare \
                 --kv-transfer-config, versions and parallelism of the prefill and decode pods, or run \
                 `longboat doctor`",
                probe.connectors
            ),
        );
    }
    Verdict::unknown(
        reason::NO_EVIDENCE,
        format!(
            "prefill worked, but neither the usage of the response nor the metrics of the decode pods show \
             whether its KV cache was transferred{left_out}: the engine has no metric of transfers"
        ),
    )
}
