//! Predicted latency: the features for a predictor, and the effects of its predictions.

use rand::{SeedableRng, rngs::StdRng};

use super::{REQUEST, RequestHeaders, idle, pool, scheduler};
use crate::{
    Decision, Features, Media, Metrics, Modality, Prediction, Prompt, Request, ScheduleError, Scheduler,
    Slot, Snapshot, State,
};

/// The headers of a request that asks for these times.
fn wants(ttft: &str, tpot: &str) -> RequestHeaders {
    RequestHeaders([("x-llm-d-slo-ttft-ms", ttft.to_owned()), ("x-slo-tpot-ms", tpot.to_owned())].into())
}

/// Predictions for the slots from 0 on. Each is the milliseconds until the first token and for each further token.
fn predicted(times: &[(f64, f64)]) -> Vec<(Slot, Prediction)> {
    let each = times.iter().zip(0..);
    each.map(|(&(ttft_ms, tpot_ms), slot)| (Slot(slot), Prediction { ttft_ms, tpot_ms })).collect()
}

fn schedule(
    (scheduler, state): (&Scheduler, &State),
    pool: &[Snapshot],
    headers: &RequestHeaders,
    predictions: &[(Slot, Prediction)],
    priority: i32,
) -> Result<Decision, ScheduleError> {
    let prompts = [Prompt::from(vec![b'x'; 4000])];
    let request = Request { prompts: &prompts, priority, predictions, headers, ..REQUEST };
    scheduler.schedule(state, &request, pool, 0, &mut StdRng::seed_from_u64(1))
}

/// The scores of the only scorer, in the order of the pool.
fn scores(
    scheduler: &Scheduler,
    pool: &[Snapshot],
    headers: &RequestHeaders,
    times: &[(f64, f64)],
) -> Vec<f64> {
    let state = scheduler.state();
    let decision = schedule((scheduler, &state), pool, headers, &predicted(times), 0).unwrap();
    decision.primary_run().trace[0].scores.iter().map(|(_, score)| *score).collect()
}

#[test]
fn the_endpoint_that_just_keeps_the_times_scores_best_and_one_that_does_not_scores_nothing() {
    let least = scheduler("{type: latency-scorer}", "");
    let times = [(90.0, 1.0), (50.0, 1.0), (10.0, 1.0), (200.0, 1.0)];
    assert_eq!(scores(&least, &idle(4), &wants("100", ""), &times), [1.01, 0.51, 0.01, 0.0]);
    let most = scheduler("{type: latency-scorer, parameters: {headroomSelectionStrategy: most}}", "");
    assert_eq!(scores(&most, &idle(4), &wants("100", ""), &times), [0.01, 0.51, 1.01, 0.0]);
}

#[test]
fn where_all_are_too_slow_the_idle_ones_count_then_those_that_miss_one_time_only() {
    let plugins =
        "{type: predicted-latency-producer, parameters: {streamingMode: true}}, {type: latency-scorer}";
    let scheduler = scheduler(plugins, "");
    let (pool, headers) = (idle(3), wants("100", "10"));
    let times = [(150.0, 5.0), (50.0, 30.0), (150.0, 30.0)];
    let mut state = scheduler.state();
    let score = |state: &State, times: &[(f64, f64)]| -> Vec<f64> {
        let decision = schedule((&scheduler, state), &pool, &headers, &predicted(times), 0).unwrap();
        decision.primary_run().trace[0].scores.iter().map(|(_, score)| *score).collect()
    };
    assert_eq!(score(&state, &times), [1.01, 0.01, 0.01], "all are idle");
    let mut held = Vec::new();
    for busy in [1, 2] {
        let one = schedule((&scheduler, &state), &pool[busy..=busy], &headers, &[], 0).unwrap();
        held.push(scheduler.commit(&mut state, &one));
    }
    assert_eq!(score(&state, &times), [0.51, 0.0, 0.0], "the first is idle");
    let one = schedule((&scheduler, &state), &pool[..1], &headers, &[], 0).unwrap();
    held.push(scheduler.commit(&mut state, &one));
    assert_eq!(score(&state, &times), [0.0, 0.51, 0.0], "the second has its first token in time");
    for reservation in held {
        state.release(reservation);
    }
}

#[test]
fn a_request_in_flight_that_wants_its_tokens_fast_makes_others_wait_for_less() {
    let plugins = "{type: predicted-latency-producer, parameters: {streamingMode: true, sloBufferFactor: 0.5}}, \
                   {type: slo-headroom-tier-filter, parameters: {epsilonExploreNeg: 0}}";
    let scheduler = scheduler(plugins, "");
    let pool = idle(2);
    let mut state = scheduler.state();
    let kept = |state: &State| {
        let times = predicted(&[(1.0, 8.0), (1.0, 8.0)]);
        let decision = schedule((&scheduler, state), &pool, &wants("100", "20"), &times, 0).unwrap();
        decision.primary_run().filtered[0].kept.clone()
    };
    assert_eq!(kept(&state), [0, 1], "half of 20 ms is enough");
    let strict = schedule((&scheduler, &state), &pool[..1], &wants("100", "12"), &[], 0).unwrap();
    let held = scheduler.commit(&mut state, &strict);
    assert_eq!(kept(&state), [1], "half of 12 ms is not");
    state.release(held);
    assert_eq!(kept(&state), [0, 1]);
}

#[test]
fn without_predictions_everything_goes_on_as_caches_and_queues_say() {
    let busy = Metrics { waiting: 4.0, kv_usage: 0.5, ..Metrics::default() };
    let pool = pool(vec![(busy, &[]), (Metrics::default(), &[])]);
    let scheduler = scheduler("{type: latency-scorer}, {type: slo-headroom-tier-filter}", "");
    let state = scheduler.state();
    let decision = schedule((&scheduler, &state), &pool, &wants("1", ""), &[], -1).unwrap();
    assert_eq!(decision.primary_run().filtered[0].kept, [0, 1]);
    assert_eq!(decision.primary_run().trace[0].scores, [(0, 0.17), (1, 0.67)]);
}

#[test]
fn slow_endpoints_are_tried_now_and_then() {
    let always = "{type: slo-headroom-tier-filter, parameters: {epsilonExploreNeg: 1}}";
    let scheduler = scheduler(always, "");
    let state = scheduler.state();
    // The third endpoint has no prediction.
    let times = predicted(&[(50.0, 1.0), (150.0, 1.0)]);
    let decision = schedule((&scheduler, &state), &idle(3), &wants("100", ""), &times, 0).unwrap();
    assert_eq!(decision.primary_run().filtered[0].kept, [1, 2]);
}

#[test]
fn a_request_that_may_be_dropped_is_where_nobody_is_in_time() {
    let scheduler = scheduler("{type: latency-slo-admitter}", "");
    let state = scheduler.state();
    let working = Metrics { running: 1.0, kv_usage: 0.5, ..Metrics::default() };
    let all_busy = pool(vec![(working.clone(), &[]), (working.clone(), &[])]);
    let one_idle = pool(vec![(working.clone(), &[]), (Metrics { running: 0.0, ..working }, &[])]);
    let (slow, fast) = (predicted(&[(150.0, 0.0); 2]), predicted(&[(150.0, 0.0), (50.0, 0.0)]));
    let admit = |pool: &[Snapshot], headers: &RequestHeaders, times: &[(Slot, Prediction)], priority: i32| {
        schedule((&scheduler, &state), pool, headers, times, priority).map(|_| ())
    };
    let hurry = wants("100", "");
    assert_eq!(admit(&all_busy, &hurry, &slow, -1), Err(ScheduleError::TooSlow));
    assert_eq!(admit(&all_busy, &hurry, &slow, 0), Ok(()), "it may not be dropped");
    assert_eq!(admit(&all_busy, &wants("soon", "-1"), &slow, -1), Ok(()), "it asks for no time");
    assert_eq!(admit(&all_busy, &hurry, &fast, -1), Ok(()));
    assert_eq!(admit(&all_busy, &hurry, &[], -1), Ok(()), "nobody knows better");
    assert_eq!(admit(&one_idle, &hurry, &slow, -1), Ok(()), "an idle endpoint may still do it");
}

#[test]
fn the_prefix_filter_can_take_its_times_from_the_predictor() {
    let plugins = "{type: prefix-cache-affinity-filter, parameters: {ttftSource: latencyPredictor, maxTTFTPenaltyMs: 100}}";
    let scheduler = scheduler(plugins, "");
    let pool = idle(2);
    let mut state = scheduler.state();
    let headers = RequestHeaders::default();
    let first = schedule((&scheduler, &state), &pool[..1], &headers, &[], 0).unwrap();
    let held = scheduler.commit(&mut state, &first);
    let kept = |times: &[(f64, f64)]| {
        let decision = schedule((&scheduler, &state), &pool, &headers, &predicted(times), 0).unwrap();
        decision.primary_run().filtered[0].kept.clone()
    };
    assert_eq!(kept(&[(150.0, 0.0), (100.0, 0.0)]), [0], "the first has the prompt");
    assert_eq!(kept(&[(250.0, 0.0), (100.0, 0.0)]), [0, 1], "it is too slow for that");
    assert_eq!(kept(&[]), [0]);
    state.release(held);
}

#[test]
fn the_predictor_is_told_what_it_learned_from() {
    let plugins = "{type: predicted-latency-producer, parameters: {endpointRoleLabel: role}}";
    let scheduler = scheduler(plugins, "");
    let metrics = Metrics { waiting: 3.0, kv_usage: 1.5, ..Metrics::default() };
    let pool = pool(vec![
        (metrics, &[("role", "decode")]),
        (Metrics { kv_usage: f64::NAN, ..Metrics::default() }, &[]),
    ]);
    let mut state = scheduler.state();
    let headers = RequestHeaders::default();
    let first = schedule((&scheduler, &state), &pool[..1], &headers, &[], 0).unwrap();
    let held = scheduler.commit(&mut state, &first);
    let prompts = [Prompt::from(vec![b'x'; 4000])];
    let request = Request { prompts: &prompts, headers: &headers, ..REQUEST };
    let expected = [
        Features {
            kv_usage: 1.0,
            input_tokens: 1000,
            waiting: 3,
            running: 1,
            prefix_ratio: 1.0,
            role: "decode".to_owned(),
            // The last block of 64 counts as a full one.
            prefill_tokens: 1024,
            ..Features::default()
        },
        Features { input_tokens: 1000, ..Features::default() },
    ];
    assert_eq!(scheduler.features(&state, &request, &pool, 0), expected);
    state.release(held);
}

#[test]
fn what_a_predictor_is_told_of_a_precise_index_is_no_second_lookup() {
    let plugins = "{type: precise-prefix-cache-producer}, {type: predicted-latency-producer, \
                   parameters: {prefixMatchInfoProducerName: precise-prefix-cache-producer}}, \
                   {type: prefix-cache-scorer, \
                   parameters: {prefixMatchInfoProducerName: precise-prefix-cache-producer}}";
    let scheduler = scheduler(plugins, "");
    let (state, pool) = (scheduler.state(), idle(1));
    let prompts = [Prompt::from(vec![b'x'; 4000])];
    let request = Request { prompts: &prompts, exact: true, ..REQUEST };
    assert_eq!(scheduler.features(&state, &request, &pool, 0).len(), 1);
    assert_eq!(state.holdings()[0].counts().lookups, 0);
    scheduler.schedule(&state, &request, &pool, 0, &mut StdRng::seed_from_u64(1)).unwrap();
    assert_eq!(state.holdings()[0].counts().lookups, 1);
}

#[test]
fn a_predictor_is_told_of_encoder_caches_where_it_is_asked_for() {
    let image = |name: &str| Media::new(Modality::Image, name.as_bytes());
    let features = |parameters: &str| {
        let plugins =
            format!("{{type: mm-embeddings-cache-scorer}}, {{type: predicted-latency-producer{parameters}}}");
        let scheduler = scheduler(&plugins, "");
        let (mut state, pool) = (scheduler.state(), idle(2));
        let request = |media| Request { multimodal: true, media, ..REQUEST };
        let (first, then) = ([image("a")], [image("a"), image("b"), image("c")]);
        let decision =
            scheduler.schedule(&state, &request(&first), &pool, 0, &mut StdRng::seed_from_u64(1)).unwrap();
        let target = decision.primary_run().targets[0];
        let held = scheduler.commit(&mut state, &decision);
        state.release(held);
        let features = scheduler.features(&state, &request(&then), &pool, 0);
        let of = |index: usize| (features[index].encoder_items, features[index].encoder_matched);
        (of(target), of(1 - target))
    };
    assert_eq!(features(", parameters: {useEncoderCacheFeatures: true}"), ((3, 1), (3, 0)));
    assert_eq!(features(""), ((0, 0), (0, 0)));
}

#[test]
fn references_to_a_predictor_must_lead_somewhere() {
    let refused = |plugins: &str| super::try_scheduler(plugins, "").unwrap_err().to_string();
    let wrong = "{name: it, type: predicted-latency-producer}, \
                 {type: latency-scorer, parameters: {latencyPredictionInfoProducerName: ti}}";
    let text = refused(wrong);
    assert!(text.contains("latencyPredictionInfoProducerName") && text.contains("did you mean"), "{text}");
    let text = refused("{type: predicted-latency-producer, parameters: {sloBufferFactor: 0}}");
    assert!(text.contains("sloBufferFactor: expected a number above 0, found 0"), "{text}");
    let text = refused("{type: predicted-latency-producer}, {name: b, type: predicted-latency-producer}");
    assert!(text.contains("there may be one predicted-latency-producer"), "{text}");
    let text = refused(
        "{type: mm-embeddings-cache-producer, name: images}, {type: predicted-latency-producer, \
         parameters: {useEncoderCacheFeatures: true, encoderCacheMatchInfoProducerName: image}}",
    );
    assert!(text.contains("encoderCacheMatchInfoProducerName") && text.contains("did you mean"), "{text}");
    let longest = |ttl: &str| {
        let plugins = format!("{{type: predicted-latency-producer, parameters: {{contextTTL: {ttl}}}}}");
        scheduler(&plugins, "").latency().unwrap().max_response.as_secs()
    };
    assert_eq!((longest("2m"), longest("3000000000")), (120, 3));
}
