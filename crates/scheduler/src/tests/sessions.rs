//! The sources of sessions, and session affinity.

use rand::{SeedableRng, rngs::StdRng};

use super::{REQUEST, RequestHeaders, idle, pick_as, scheduler, try_scheduler};
use crate::{Prompt, Request, Scheduler, State};

/// Sends a request with these headers to one of eight endpoints, commits the decision, and returns the endpoint's name.
fn sent(scheduler: &Scheduler, state: &mut State, headers: &RequestHeaders, seed: u64) -> String {
    let pool = idle(8);
    let prompts = [Prompt::from(b"prompt".to_vec())];
    let request = Request { prompts: &prompts, headers, ..REQUEST };
    let decision = scheduler.schedule(state, &request, &pool, 0, &mut StdRng::seed_from_u64(seed)).unwrap();
    let reservation = scheduler.commit(state, &decision);
    state.release(reservation);
    decision.destination[0].clone()
}

/// Whether requests with this header stay on one endpoint.
fn sticks(plugins: &str, name: &'static str, value: &str) -> bool {
    let scheduler = scheduler(plugins, "");
    let mut state = scheduler.state();
    let headers = RequestHeaders([(name, value.to_owned())].into());
    let first = sent(&scheduler, &mut state, &headers, 0);
    (1..20).all(|seed| sent(&scheduler, &mut state, &headers, seed) == first)
}

#[test]
fn sessions_stand_in_headers_in_cookies_and_in_what_agents_send() {
    let affinity = |sources: &str| {
        format!(
            "{{type: session-affinity-scorer, parameters: {{strategy: session_id, sessionIdConfig: {{sources: [{sources}]}}}}}}"
        )
    };
    assert!(sticks(&affinity(""), "x-session-id", "s"));
    assert!(sticks(&affinity("{header: X-Mine}"), "x-mine", "s"));
    assert!(!sticks(&affinity("{header: X-Mine}"), "x-session-id", "s"));
    let cookie = format!(
        "{}, {{type: session-id-producer, name: it, parameters: {{cookieName: sid}}}}",
        affinity("{header: x-mine}, {attribute: SessionIDDataKey, producer: it}")
    );
    assert!(sticks(&cookie, "cookie", "a=b; sid=42"));
    assert!(!sticks(&cookie, "cookie", "a=b; sid="));
    let agent = format!("{}, {{type: agent-identity}}", affinity("{attribute: agent-identity}"));
    assert!(sticks(&agent, "x-claude-code-session-id", "s"));
    assert!(!sticks(&agent, "x-session-id", "s"));
    let other = "{type: session-affinity-scorer, parameters: {encodedEndpointHeaderConfig: {header: X-Pod}}}";
    // Base64 of ns/pod-3.
    assert!(sticks(other, "x-pod", "bnMvcG9kLTM="));
}

#[test]
fn the_session_of_an_agent_is_in_the_first_header_that_has_one() {
    let agents = scheduler("{type: agent-identity, parameters: {additionalSessionHeaders: [X-Mine]}}", "");
    let of = |headers: &[(&'static str, &str)]| {
        let headers =
            RequestHeaders(headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect());
        agents.agents().unwrap().of(&headers).map(str::to_owned)
    };
    assert_eq!(of(&[("session_id", "old"), ("x-mine", "mine")]).as_deref(), Some("mine"));
    assert_eq!(of(&[("session_id", "old"), ("session-id", " ")]).as_deref(), Some("old"));
    assert_eq!(of(&[("x-session-id", "s")]), None);
    assert!(scheduler("{type: queue-scorer}", "").agents().is_none());
}

#[test]
fn parameters_of_the_other_strategy_and_profiles_that_do_not_exist_are_warned_about() {
    let warnings = |parameters: &str| {
        let plugins = format!("{{type: session-affinity-scorer, parameters: {{{parameters}}}}}");
        scheduler(
            &plugins,
            "schedulingProfiles: [{name: decode, plugins: [{pluginRef: session-affinity-scorer}]}]\n",
        )
        .warnings
    };
    let at = "plugins[0].parameters";
    assert_eq!(
        warnings("sessionIdConfig: {evictionTtlSeconds: 9}, profileName: decode"),
        [format!("{at}: no effect: sessionIdConfig needs strategy: session_id"),]
    );
    assert_eq!(
        warnings("strategy: session_id, encodedEndpointHeaderConfig: {header: x}, profileName: decoed"),
        [
            format!("{at}: no effect: encodedEndpointHeaderConfig needs strategy: encoded_endpoint_header"),
            format!("{at}.profileName: no session is remembered, because no profile has the name \"decoed\""),
        ]
    );
    assert_eq!(warnings("strategy: session_id, profileName: decode"), [""; 0]);
    assert_eq!(warnings("strategy: session_id, profileName: ''"), [""; 0]);
    let unnamed = "{type: session-affinity-scorer, parameters: {strategy: session_id, profileName: ''}}";
    assert!(sticks(unnamed, "x-session-id", "s"));
}

#[test]
fn a_session_moves_only_if_its_endpoint_is_no_candidate() {
    let scheduler = scheduler(
        "{type: session-affinity-scorer, parameters: {strategy: session_id}}, {type: random-picker}",
        "",
    );
    let mut state = scheduler.state();
    let pool = idle(8);
    let headers = RequestHeaders([("x-session-id", "s".to_owned())].into());
    let mut send = |candidates: std::ops::Range<usize>, seed| {
        let candidates = &pool[candidates];
        let decision = pick_as(&scheduler, &state, candidates, (0, &headers, seed)).unwrap();
        let _held = scheduler.commit(&mut state, &decision);
        let scores = &decision.primary_run().trace[0].scores;
        let own = scores.iter().find(|(_, score)| *score > 0.0);
        own.map(|&(candidate, _)| candidates[candidate].endpoint.name.clone())
    };
    assert_eq!(send(0..1, 0), None, "the session is new");
    for seed in 0..20 {
        assert_eq!(send(0..8, seed).as_deref(), Some("pod-0"), "the picker sends it anywhere");
    }
    assert_eq!(send(3..4, 0), None);
    assert_eq!(send(0..8, 0).as_deref(), Some("pod-3"));
}

#[test]
fn the_response_names_the_endpoint_of_the_profile() {
    let affinity = |profile: &str| {
        let scheduler = scheduler(
            &format!(
                "{{type: session-affinity-scorer, parameters: {{profileName: {profile}}}}}, {{type: header-profile-handler}}"
            ),
            "schedulingProfiles: [{name: decode, plugins: [{pluginRef: session-affinity-scorer}]}, {name: prefill}]\n",
        );
        let decision = pick_as(&scheduler, &scheduler.state(), &idle(1), (0, &RequestHeaders::default(), 0));
        decision.unwrap().response_headers.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(affinity("decode"), ["x-session-token"]);
    assert_eq!(affinity("''"), ["x-session-token"]);
    assert_eq!(affinity("prefill"), [""; 0], "this profile did not run");
}

#[test]
fn places_that_lead_nowhere_are_refused() {
    let refused = |plugins: &str| try_scheduler(plugins, "").unwrap_err().to_string();
    let affinity = |source: &str, more: &str| {
        refused(&format!(
            "{{type: session-affinity-filter, parameters: {{strategy: session_id, sessionIdConfig: {{sources: [{source}]}}}}}}{more}"
        ))
    };
    let producer = ", {type: session-id-producer, name: mine, parameters: {headerName: x}}";
    let text = affinity("{attribute: SessionIDDataKey, producer: mien}", producer);
    assert!(text.contains("sources[0].producer") && text.contains("did you mean \"mine\"?"), "{text}");
    assert!(affinity("{attribute: agent-identity}", "").contains("declare a plugin of type agent-identity"));
    assert!(affinity("{attribute: x}", "").contains("attribute \"x\" is not known"));
    assert!(affinity("{header: x}, {}", "").contains("sources[1]: exactly one"));
    assert!(refused("{type: session-id-producer}").contains("exactly one of headerName and cookieName"));
    let both = "{type: session-id-producer, parameters: {headerName: a, cookieName: b}}";
    assert!(refused(both).contains("exactly one"));
}
