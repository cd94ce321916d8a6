//! The policies of `benches/picker`: each loads, and llm-d's defaults route by their parameters.

use rand::{SeedableRng, rngs::StdRng};

use super::{REQUEST, idle, pool};
use crate::{
    Decision, Metrics, Options, Prompt, Request, Scheduler, Snapshot, State,
    config::{EndpointPickerConfig, load},
};

const LLM_D: &str = include_str!("../../../../benches/picker/policies/llm-d.yaml");
const LLM_D_PD: &str = include_str!("../../../../benches/picker/policies/llm-d-pd.yaml");

fn scheduler(config: &str) -> Scheduler {
    let loaded = load(config, &[], Options { allow_experimental: false, trace: true }).unwrap();
    assert!(loaded.config.deprecations().is_empty() && loaded.config.warnings().is_empty());
    loaded.scheduler
}

fn pick(scheduler: &Scheduler, state: &State, pool: &[Snapshot], (prompt, seed): (&str, u64)) -> Decision {
    let prompts = [Prompt::from(prompt.as_bytes().to_vec())];
    let request = Request { prompts: &prompts, ..REQUEST };
    scheduler.schedule(state, &request, pool, 0, &mut StdRng::seed_from_u64(seed)).unwrap()
}

#[test]
fn llm_ds_default_stays_where_the_prefix_is_until_the_wait_is_too_long() {
    let scheduler = scheduler(LLM_D);
    let mut state = scheduler.state();
    let pool = idle(4);
    let first = pick(&scheduler, &state, &pool, (&"a".repeat(4096), 0));
    let home = first.primary_run().targets[0];
    let mut held = vec![scheduler.commit(&mut state, &first)];
    // The continuation shares more than 80 % with the first prompt, so it stays, although the endpoint is the busiest.
    let next = "a".repeat(4096) + &"b".repeat(512);
    assert!(
        (0..8).all(|seed| pick(&scheduler, &state, &pool, (&next, seed)).primary_run().targets[0] == home)
    );
    // A prompt that shares less than 80 % goes where fewer tokens are in flight.
    let other = "a".repeat(2048) + &"b".repeat(2048);
    assert!(
        (0..8).all(|seed| pick(&scheduler, &state, &pool, (&other, seed)).primary_run().targets[0] != home)
    );
    // 18 seconds of prefill at 15928 tokens a second are 286704 tokens.
    let long = "a".repeat(4096) + &"c".repeat(4 * 285_000);
    let busy = pick(&scheduler, &state, &[pool[home].clone()], (&long, 0));
    held.push(scheduler.commit(&mut state, &busy));
    assert!(
        (0..8).all(|seed| pick(&scheduler, &state, &pool, (&next, seed)).primary_run().targets[0] == home)
    );
    let more = pick(&scheduler, &state, &[pool[home].clone()], (&"d".repeat(4 * 2000), 0));
    held.push(scheduler.commit(&mut state, &more));
    assert!(
        (0..8).all(|seed| pick(&scheduler, &state, &pool, (&next, seed)).primary_run().targets[0] != home)
    );
    for held in held {
        state.release(held);
    }
    assert!(
        (0..8).all(|seed| pick(&scheduler, &state, &pool, (&next, seed)).primary_run().targets[0] == home)
    );
}

#[test]
fn llm_ds_default_for_separate_pods_prefills_by_prefix_and_decodes_by_load() {
    let scheduler = scheduler(LLM_D_PD);
    let mut state = scheduler.state();
    let role = |role| (Metrics::default(), role);
    let prefill: &[(&str, &str)] = &[("llm-d.ai/role", "prefill")];
    let decode: &[(&str, &str)] = &[("llm-d.ai/role", "decode")];
    let pool = pool(vec![role(prefill), role(prefill), role(decode), role(decode)]);
    let stages =
        |decision: &Decision| (decision.stages().prefill.unwrap(), decision.stages().decode.unwrap());
    let prompt = "a".repeat(4096);
    let first = pick(&scheduler, &state, &pool, (&prompt, 0));
    let (prefiller, decoder) = stages(&first);
    assert!(prefiller < 2 && decoder >= 2);
    let _held = scheduler.commit(&mut state, &first);
    for seed in 0..8 {
        let next = pick(&scheduler, &state, &pool, (&prompt, seed));
        assert_eq!(stages(&next), (prefiller, 5 - decoder), "the prefix stays, the other decoder is idle");
    }
}

/// Every parameter of llm-d's defaults, with the value that it has if it is not set.
#[test]
fn the_parameters_of_llm_ds_defaults_are_known_with_their_values() {
    for (plugin, parameters) in [
        (
            "approx-prefix-cache-producer",
            "autoTune: true, blockSizeTokens: 16, maxPrefixTokensToMatch: 131072, lruCapacityPerServer: 31250",
        ),
        (
            "prefix-cache-affinity-filter",
            "affinityThreshold: 0.8, explorationProbability: 0, maxTTFTPenaltyMs: 18000, ttftSource: prefillThroughput, \
             peakPrefillThroughput: 15928",
        ),
        ("token-load-scorer", "queueThresholdTokens: 4194304"),
        ("active-request-scorer", "idleThreshold: 0, maxBusyScore: 1.0"),
        ("inflight-load-producer", "addEstimatedOutputTokens: false"),
    ] {
        let entry = format!("- type: {plugin}\n");
        assert!(LLM_D_PD.contains(&entry), "{plugin}");
        let text = LLM_D_PD.replace(&entry, &format!("- type: {plugin}\n  parameters: {{{parameters}}}\n"));
        let config = EndpointPickerConfig::parse(&text).unwrap();
        Scheduler::new(&config, Options::default()).unwrap_or_else(|error| panic!("{plugin}: {error}"));
        let wrong = text.replace(&format!("{{{parameters}}}"), "{nothing: 1}");
        let error =
            Scheduler::new(&EndpointPickerConfig::parse(&wrong).unwrap(), Options::default()).unwrap_err();
        assert!(error.to_string().contains("there is no field \"nothing\""), "{error}");
    }
}

#[test]
fn a_request_without_a_prefix_goes_where_the_fewest_requests_went_lately() {
    let text = "apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\nplugins:\n- {type: no-hit-least-requests-scorer}\n\
                - {type: approx-prefix-cache-producer, parameters: {sharedPrefixAfter: 5}}\n";
    let scheduler = scheduler(text);
    let mut state = scheduler.state();
    let pool = idle(3);
    let scores = |decision: &Decision| {
        let mut scores = vec![f64::NAN; 3];
        for &(candidate, score) in &decision.primary_run().trace[0].scores {
            scores[candidate] = score;
        }
        scores
    };
    let prompt = |letter: &str| letter.repeat(1000);
    let at = |index: usize| [pool[index].clone()];
    // Two conversations begin at the first endpoint. The second one joins then, as if it had had its share, and gets one too.
    for (letter, index) in [("a", 0), ("b", 0), ("c", 1)] {
        let decision = pick(&scheduler, &state, &at(index), (&prompt(letter), 0));
        let _held = scheduler.commit(&mut state, &decision);
    }
    // The third has not been a candidate yet, so it is between the two.
    let new = |state: &State| pick(&scheduler, state, &pool, (&prompt("d"), 0));
    assert_eq!(scores(&new(&state)), [1.0, 0.0, 0.5]);
    assert_eq!(new(&state).primary_run().targets[0], 0);
    let warm = pick(&scheduler, &state, &pool, (&(prompt("a") + "more"), 0));
    assert_eq!(scores(&warm), [0.5; 3], "a conversation stays where it is");
    // A conversation counts as ten requests: nine more turns weigh less, and two further ones more.
    let mut turns = prompt("a");
    for (count, expected) in [(9, [1.0, 0.0, 0.5]), (2, [0.0, 1.0, 0.5])] {
        for _ in 0..count {
            turns += &"a".repeat(300);
            let decision = pick(&scheduler, &state, &at(0), (&turns, 0));
            let _held = scheduler.commit(&mut state, &decision);
        }
        assert_eq!(scores(&new(&state)), expected, "after {count} turns");
    }
    // Another pod may get the slot, and then is new.
    state.forget(pool[0].endpoint.slot);
    assert!(scores(&new(&state))[0] > 0.0);
    let wrong = text.replace("-scorer}", "-scorer, parameters: {halfLifeSeconds: 0}}");
    let error = load(&wrong, &[], Options::default()).unwrap_err().to_string();
    assert!(error.contains("halfLifeSeconds: expected a number above 0, found 0"), "{error}");
}

#[test]
fn selectors_of_keys_and_values_that_no_label_has_are_refused() {
    for (selector, wanted) in [
        ("{matchLabels: {'a b': x}}", "matchLabels: key \"a b\": name part must consist of"),
        ("{matchLabels: {a: 'b c'}}", "matchLabels: value \"b c\" of \"a\": "),
        (
            "{matchExpressions: [{key: '', operator: Exists}]}",
            "matchExpressions[0]: key \"\": name part must be non-empty",
        ),
        (
            "{matchExpressions: [{key: a, operator: In, values: [b, '-']}]}",
            "matchExpressions[0]: value \"-\" of \"a\": ",
        ),
    ] {
        let message = super::config::refused(&format!(
            "plugins: [{{type: label-selector-filter, parameters: {selector}}}]\n"
        ));
        assert!(message.contains(wanted), "{selector}: {message}");
    }
    super::config::build(
        "plugins: [{type: label-selector-filter, parameters: {matchLabels: {example.org/a: ''}}}]\n",
    )
    .unwrap();
}
