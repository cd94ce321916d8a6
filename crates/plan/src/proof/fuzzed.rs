//! Judges arbitrary bytes, for fuzzing.

use std::time::Duration;

use super::{Answer, Counters, Id, Outcome, PodAddress, PodMetrics, Probe, ProbeObservation, Role, judge};

/// Returns the outcome for a response with this status and body, and engines that show this metrics page after the request.
pub fn probe_bytes(code: u16, body: &[u8], page: &[u8]) -> Outcome {
    let pods = [("decode", Role::Decode), ("prefill", Role::Prefill)].map(|(name, role)| PodAddress {
        name: name.to_owned(),
        role,
        url: format!("http://{name}:8000"),
    });
    let probe = Probe {
        id: Id { subject: String::new(), reconciled: String::new(), attempt: 1 },
        delay: Duration::ZERO,
        url: "http://gateway/ns/llm/v1/completions".to_owned(),
        model_header: None,
        trusted: Vec::new(),
        pods: pods.into(),
        pod_certificate: None,
        left_out: 0,
        disaggregated: true,
        has_picker: true,
        connectors: String::new(),
        model: "llm".to_owned(),
        names: vec!["llm".to_owned()],
        words: 0,
        trust_hint: String::new(),
    };
    let metrics = PodMetrics { before: Some(Counters::default()), after: Ok(Counters::read(page)) };
    let answer = Ok(Answer { code, body: body.to_vec() });
    judge(&probe, &ProbeObservation { answer, pods: vec![metrics.clone(), metrics], at: 0 })
}
