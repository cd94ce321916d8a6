//! Picks: the scores, and the state after a commit.

use rand::{SeedableRng, rngs::StdRng};

use super::{REQUEST, idle, pool, scheduler, try_scheduler};
use crate::{Decision, Metrics, Prompt, Request, ScheduleError, Scheduler, Slot, Snapshot, State};

fn endpoints(metrics: &[Metrics]) -> Vec<Snapshot> {
    pool(metrics.iter().map(|metrics| (metrics.clone(), [].as_slice())).collect())
}

fn pick(
    scheduler: &Scheduler,
    state: &State,
    at: &[Snapshot],
    prompt: &str,
) -> Result<Decision, ScheduleError> {
    let prompts = [Prompt::from(prompt.as_bytes().to_vec())];
    let request = Request { prompts: &prompts, ..REQUEST };
    scheduler.schedule(state, &request, at, 0, &mut StdRng::seed_from_u64(7))
}

fn waiting(queue: f64) -> Metrics {
    Metrics { waiting: queue, ..Metrics::default() }
}

#[test]
fn the_same_state_and_randomness_give_the_same_pick() {
    let scheduler = scheduler("{type: no-hit-lru-scorer}, {type: weighted-random-picker}", "");
    let pods = idle(8);
    let state = scheduler.state();
    let first = pick(&scheduler, &state, &pods, "x").unwrap().destination;
    for _ in 0..10 {
        assert_eq!(pick(&scheduler, &state, &pods, "x").unwrap().destination, first);
    }
}

#[test]
fn scoring_changes_nothing_and_committing_does() {
    let scheduler = scheduler("{type: prefix-cache-scorer}", "");
    let pods = idle(2);
    let mut state = scheduler.state();
    let decision = pick(&scheduler, &state, &pods, "hello").unwrap();
    assert_eq!((state.prefix_blocks().sum::<usize>(), decision.prefix_hit()), (0, Some((0, 1))));
    let reservation = scheduler.commit(&mut state, &decision);
    assert_eq!(state.prefix_blocks().sum::<usize>(), 1);
    let again = pick(&scheduler, &state, &pods, "hello").unwrap();
    assert_eq!(again.prefix_hit(), Some((1, 1)));
    assert_eq!(again.destination, decision.destination);
    state.release(reservation);
}

#[test]
fn estimated_output_counts_until_the_response_ends() {
    let prompts = [Prompt::from(vec![0; 4 * 100])];
    for (parameters, limit, expected) in [
        ("{}", None, [100, 0]),
        ("{addEstimatedOutputTokens: true}", None, [250, 250]),
        ("{addEstimatedOutputTokens: true}", Some(7), [107, 107]),
        ("{addEstimatedOutputTokens: true, outputRatio: 0.5}", Some(1000), [150, 150]),
        ("{addEstimatedOutputTokens: true, maxEstimatedOutputTokens: 20}", None, [120, 120]),
    ] {
        let plugins = format!(
            "{{type: inflight-load-producer, parameters: {parameters}}}, \
             {{type: token-load-scorer, parameters: {{queueThresholdTokens: 1000}}}}"
        );
        let scheduler = scheduler(&plugins, "");
        let (pods, mut state) = (idle(1), scheduler.state());
        let request = Request { prompts: &prompts, max_output_tokens: limit, ..REQUEST };
        let decision = scheduler.schedule(&state, &request, &pods, 0, &mut StdRng::seed_from_u64(1)).unwrap();
        let score = decision.runs[0].trace[0].scores[0].1;
        let mut reservation = scheduler.commit(&mut state, &decision);
        let before = state.in_flight(Slot(0)).1;
        state.first_chunk(&mut reservation, None);
        assert_eq!([before, state.in_flight(Slot(0)).1], expected, "{parameters}");
        let [first, _] = expected;
        assert!((score - (1.0 - f64::from(u32::try_from(first).unwrap()) / 1000.0)).abs() < 1e-9, "{score}");
        state.release(reservation);
        assert_eq!(state.in_flight(Slot(0)), (0, 0));
    }
    let negative = "{type: inflight-load-producer, parameters: {outputRatio: -1}}";
    assert!(try_scheduler(negative, "").unwrap_err().to_string().contains("outputRatio"));
}

#[test]
fn blocks_that_many_prompts_share_are_held_and_not_scored() {
    let producer = "{type: approx-prefix-cache-producer, parameters: {sharedPrefixAfter: 3}}";
    let scheduler = scheduler(&format!("{producer}, {{type: prefix-cache-scorer}}"), "");
    let pods = idle(1);
    let mut state = scheduler.state();
    let mut ask = |own: &str| {
        let prompt = format!("{}{}", "shared ".repeat(300), own.repeat(2000));
        let decision = pick(&scheduler, &state, &pods, &prompt).unwrap();
        let reservation = scheduler.commit(&mut state, &decision);
        state.release(reservation);
        let score = decision.runs[0].trace[0].scores[0].1;
        (decision.prefix_hit().unwrap().0, decision.shared_blocks(), score > 0.0)
    };
    for own in ["a", "b", "c", "d", "e"] {
        ask(own);
    }
    let (held, shared, scored) = ask("f");
    assert!(held > 0 && shared == held && !scored, "{held} {shared} {scored}");
    let (held, shared, scored) = ask("f");
    assert!(held > shared && shared > 0 && scored, "{held} {shared} {scored}");
}

#[test]
fn load_in_flight_is_given_back_in_two_steps() {
    let scheduler = scheduler("{type: inflight-load-producer}, {type: token-load-scorer}", "");
    let pods = idle(1);
    let mut state = scheduler.state();
    let decision = pick(&scheduler, &state, &pods, "12345678").unwrap();
    let mut reservation = scheduler.commit(&mut state, &decision);
    assert_eq!(state.in_flight(Slot(0)), (1, 2));
    state.first_chunk(&mut reservation, None);
    assert_eq!(state.in_flight(Slot(0)), (1, 0));
    state.release(reservation);
    assert_eq!(state.in_flight(Slot(0)), (0, 0));
}

#[test]
fn the_named_prefix_producer_says_which_part_of_a_prompt_is_no_load() {
    let load = |named: &str| {
        let scheduler = scheduler(
            &format!(
                "{{type: approx-prefix-cache-producer, parameters: {{maxPrefixTokensToMatch: 64}}}}, \
                 {{type: approx-prefix-cache-producer, name: whole}}, {{type: inflight-load-producer, parameters: {{\
                 prefixMatchInfoProducerName: {named}}}}}, {{type: token-load-scorer}}"
            ),
            "",
        );
        let pods = idle(1);
        let mut state = scheduler.state();
        let loads = (0..2).map(|_| {
            let decision = pick(&scheduler, &state, &pods, &"x".repeat(4 * 200)).unwrap();
            let reservation = scheduler.commit(&mut state, &decision);
            let load = state.in_flight(Slot(0)).1;
            state.release(reservation);
            load
        });
        loads.collect::<Vec<_>>()
    };
    assert_eq!(load("whole"), [256, 0], "three blocks of 64 and a part, which counts as a whole one");
    assert_eq!(load("approx-prefix-cache-producer"), [200, 136], "beyond the first block nothing is known");
    assert_eq!(load("''"), [200, 136]);
}

#[test]
fn what_an_earlier_owner_of_a_slot_held_is_not_given_back_twice() {
    let scheduler = scheduler("{type: active-request-scorer}", "");
    let pods = idle(1);
    let mut state = scheduler.state();
    let decision = pick(&scheduler, &state, &pods, "x").unwrap();
    let old = scheduler.commit(&mut state, &decision);
    state.forget(Slot(0));
    let decision = pick(&scheduler, &state, &pods, "x").unwrap();
    let new = scheduler.commit(&mut state, &decision);
    state.release(old);
    assert_eq!(state.in_flight(Slot(0)).0, 1);
    state.release(new);
}

#[test]
fn a_decision_for_an_endpoint_that_has_left_does_not_count_for_the_next_owner_of_its_slot() {
    let scheduler = scheduler("{type: prefix-cache-scorer, parameters: {blockSizeTokens: 1}}", "");
    let pods = idle(1);
    let mut state = scheduler.state();
    let decision = pick(&scheduler, &state, &pods, "12345678").unwrap();
    state.forget(Slot(0));
    let reservation = scheduler.commit(&mut state, &decision);
    assert_eq!(state.in_flight(Slot(0)), (0, 0));
    assert_eq!(state.prefix_blocks().sum::<usize>(), 0);
    state.release(reservation);
}

#[test]
fn endpoints_without_recent_metrics_rank_last_and_do_not_shift_scores() {
    let scheduler = scheduler("{type: queue-scorer}", "");
    let mut pods = endpoints(&[waiting(5.0), waiting(9.0), waiting(0.0)]);
    pods[2].fresh = false;
    let decision = pick(&scheduler, &scheduler.state(), &pods, "x").unwrap();
    assert_eq!(decision.destination, ["10.0.0.1:8000"]);
    assert_eq!(decision.primary_run().totals, [(0, 1.0), (1, 0.0)]);
    for pod in &mut pods {
        pod.fresh = false;
    }
    let decision = pick(&scheduler, &scheduler.state(), &pods, "x").unwrap();
    assert_eq!(decision.destination, ["10.0.0.1:8002"], "all alike: the scores count");
}

#[test]
fn values_that_are_no_numbers_score_nothing() {
    let scheduler = scheduler("{type: kv-cache-utilization-scorer}", "");
    let pods = endpoints(&[
        Metrics { kv_usage: f64::NAN, ..Metrics::default() },
        Metrics { kv_usage: 0.5, ..Metrics::default() },
    ]);
    let decision = pick(&scheduler, &scheduler.state(), &pods, "x").unwrap();
    assert_eq!(decision.destination, ["10.0.0.1:8001"]);
    assert_eq!(decision.primary_run().trace[0].plugin, "kv-cache-utilization-scorer");
}

#[test]
fn nothing_to_choose_from_is_an_error() {
    let scheduler = scheduler("{type: queue-scorer}", "");
    let error = pick(&scheduler, &scheduler.state(), &[], "x").unwrap_err();
    assert_eq!(error, ScheduleError::NoCandidates);
}

#[test]
fn cold_requests_go_round_all_endpoints() {
    let scheduler = scheduler("{type: no-hit-lru-scorer}", "");
    let pods = idle(5);
    let mut state = scheduler.state();
    let mut seen = Vec::new();
    for round in 0..10 {
        let decision = pick(&scheduler, &state, &pods, &format!("{round}")).unwrap();
        seen.push(decision.destination[0].clone());
        let _held = scheduler.commit(&mut state, &decision);
    }
    assert_eq!(seen[..5], seen[5..]);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 5);
}
