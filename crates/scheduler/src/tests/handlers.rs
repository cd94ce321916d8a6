//! Profile handlers: which profiles run, and what the headers of the request say then.

use super::{RequestHeaders, pick_as, pool, scheduler, try_scheduler};
use crate::{Decision, Metrics, ScheduleError, State};

const PREFILL: (&str, &str) = ("llm-d.ai/role", "prefill");
const DECODE: (&str, &str) = ("llm-d.ai/role", "decode");

fn pick(handler: &str, rest: &str, headers: &RequestHeaders) -> Result<Decision, ScheduleError> {
    let pool = pool(
        [PREFILL, PREFILL, DECODE]
            .iter()
            .map(|role| (Metrics::default(), std::slice::from_ref(role)))
            .collect(),
    );
    let filters = "{type: decode-filter}, {type: prefill-filter}, {type: always-disagg-pd-decider}";
    let scheduler = scheduler(
        &format!(
            "{{type: {handler}}}, {filters}, {{type: max-score-picker, parameters: {{maxNumOfEndpoints: 2}}}}"
        ),
        rest,
    );
    pick_as(&scheduler, &scheduler.state(), &pool, (0, headers, 7))
}

const BOTH: &str = "schedulingProfiles: [{name: decode, plugins: [{pluginRef: decode-filter}]}, \
                    {name: prefill, plugins: [{pluginRef: prefill-filter}]}]\n";
const ONE: &str = "schedulingProfiles: [{name: only, plugins: [{pluginRef: decode-filter}]}]\n";

fn header<'d>(decision: &'d Decision, name: &str) -> Option<&'d str> {
    decision.set_headers.iter().find(|(found, _)| *found == name).map(|(_, value)| value.as_str())
}

#[test]
fn a_header_names_the_profile() {
    let of = |parameters: &str, rest, name: &'static str, value: &str| {
        let headers = RequestHeaders([(name, value.to_owned())].into());
        pick(&format!("header-profile-handler, parameters: {{{parameters}}}"), rest, &headers)
            .map(|decision| decision.primary_run().name.clone())
    };
    assert_eq!(of("", BOTH, "epp-profile", " prefill ").unwrap(), "prefill");
    assert_eq!(of("", BOTH, "epp-profile", " ").unwrap(), "decode");
    assert_eq!(
        of("headerName: X-Stage, defaultProfile: prefill", BOTH, "x-stage", "decode").unwrap(),
        "decode"
    );
    assert_eq!(
        of("headerName: X-Stage, defaultProfile: prefill", BOTH, "epp-profile", "decode").unwrap(),
        "prefill"
    );
    assert!(matches!(of("", BOTH, "epp-profile", "encode"), Err(ScheduleError::NoProfile(_))));
    assert_eq!(of("", ONE, "epp-profile", "encode").unwrap(), "only", "there is nothing to choose");
}

#[test]
fn one_pod_prefills_even_if_the_picker_names_several() {
    for handler in [
        "disagg-profile-handler, parameters: {deciders: {prefill: always-disagg-pd-decider}}",
        "disagg-profile-handler, parameters: {deciderPluginName: always-disagg-pd-decider}",
        "disagg-profile-handler, parameters: {stageOrder: Prefill_First}",
        "pd-profile-handler, parameters: {deciderPluginName: always-disagg-pd-decider}",
    ] {
        let decision = pick(handler, BOTH, &RequestHeaders::default()).unwrap();
        let prefill = header(&decision, "x-prefiller-host-port").unwrap();
        assert!(["10.0.0.1:8000", "10.0.0.1:8001"].contains(&prefill), "{handler}: {prefill}");
        assert_eq!(decision.destination, ["10.0.0.1:8002"], "{handler}");
    }
    let wrong = "{type: disagg-profile-handler, parameters: {stageOrder: encode-first}}";
    let error = try_scheduler(wrong, BOTH).unwrap_err().to_string();
    assert!(error.contains("expected decode-first or prefill-first, found \"encode-first\""), "{error}");
}

#[test]
fn a_decoder_of_several_ranks_is_called_at_its_primary_port() {
    let handler = "pd-profile-handler, parameters: {primaryPort: 9000, deciderPluginName: always-disagg-pd-decider, \
                   prefixMatchInfoProducerName: approx-prefix-cache-producer}";
    let decision = pick(handler, BOTH, &RequestHeaders::default()).unwrap();
    assert_eq!(decision.destination, ["10.0.0.1:9000"]);
    assert_eq!(header(&decision, "x-data-parallel-host-port"), Some("10.0.0.1:8002"));
}

#[test]
fn filters_that_drop_all_endpoints_of_a_profile_mean_that_the_pool_is_full() {
    let full = "{type: concurrency-detector, parameters: {maxConcurrency: 1}}";
    let profiles = "schedulingProfiles: [{name: decode, plugins: [{pluginRef: decode-filter}, {pluginRef: concurrency-detector}]}, \
                    {name: prefill, plugins: [{pluginRef: prefill-filter}]}]\n";
    for handler in ["disagg-profile-handler", "header-profile-handler"] {
        let scheduler = scheduler(
            &format!("{{type: {handler}}}, {{type: decode-filter}}, {{type: prefill-filter}}, {full}"),
            profiles,
        );
        let pool = pool(vec![(Metrics::default(), &[("llm-d.ai/role", "decode")])]);
        let mut state = scheduler.state();
        let pick = |state: &State| pick_as(&scheduler, state, &pool, (0, &RequestHeaders::default(), 7));
        let decision = pick(&state).unwrap();
        let _held = scheduler.commit(&mut state, &decision);
        assert!(matches!(pick(&state), Err(ScheduleError::Filtered(_))), "{handler}");
    }
}
