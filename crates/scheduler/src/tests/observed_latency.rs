//! Observed latency: the curves of endpoints, and the scores that follow from them.

use rand::{SeedableRng, rngs::StdRng};

use super::{REQUEST, idle, scheduler, try_scheduler};
use crate::{ConfigError, Options, Reservation, Scheduler, Snapshot, State, config::EndpointPickerConfig};

/// A pool whose endpoints answer as the tests say.
struct Run {
    scheduler: Scheduler,
    state: State,
    pool: Vec<Snapshot>,
    now: u64,
}

impl Run {
    fn new(endpoints: usize, plugins: &str) -> Self {
        let scheduler = scheduler(plugins, "");
        Self { state: scheduler.state(), scheduler, pool: idle(endpoints), now: 1000 }
    }

    fn decide(&self, pool: &[Snapshot]) -> crate::Decision {
        let request = REQUEST;
        self.scheduler.schedule(&self.state, &request, pool, self.now, &mut StdRng::seed_from_u64(1)).unwrap()
    }

    fn send(&mut self, endpoint: usize) -> Reservation {
        let decision = self.decide(&self.pool[endpoint..=endpoint]);
        self.scheduler.commit(&mut self.state, &decision)
    }

    /// Sends as many requests to an endpoint at once. The first token of each comes after these milliseconds.
    fn answer(&mut self, endpoint: usize, after: impl Fn(u64) -> u64, requests: u64) {
        let sent = self.now;
        let mut held: Vec<_> = (0..requests).map(|_| self.send(endpoint)).collect();
        for (ahead, reservation) in held.iter_mut().enumerate() {
            self.now = sent + after(ahead as u64);
            self.state.first_chunk(reservation, Some(self.now));
        }
        for reservation in held {
            self.state.release(reservation);
        }
    }

    fn scores(&self) -> Vec<f64> {
        let decision = self.decide(&self.pool);
        let scores = decision.primary_run().trace[0].scores.iter();
        scores.map(|(_, score)| (score * 10_000.0).round() / 10_000.0).collect()
    }
}

const SCORER: &str = "{type: latency-observation-scorer-hub, parameters: {explorationRate: 0}}";

#[test]
fn the_endpoint_with_the_earlier_first_token_scores_best_and_an_unknown_one_counts_as_the_best() {
    let mut run = Run::new(4, SCORER);
    assert_eq!(run.scores(), [1.0; 4], "nothing is known");
    for _ in 0..10 {
        run.answer(0, |_| 100, 1);
        run.answer(1, |_| 200, 1);
        run.answer(2, |_| 125, 1);
    }
    run.now += 1000;
    assert_eq!(run.scores(), [1.0, 0.0, 0.75, 1.0]);
}

#[test]
fn the_prediction_follows_the_load_through_three_points() {
    let mut run = Run::new(4, SCORER);
    for endpoint in 0..4 {
        // The floor is 110 ms, the low load 125 ms with 2 in flight, and the typical load 150 ms with 5 in flight.
        run.answer(endpoint, |ahead| 100 + 10 * ahead, 11);
    }
    let mut held = Vec::new();
    for (endpoint, requests) in [(1, 1), (2, 5), (3, 8)] {
        held.extend((0..requests).map(|_| run.send(endpoint)));
    }
    run.now += 1000;
    // 110, 117.5, 150 and 175 ms.
    assert_eq!(run.scores(), [1.0, 0.8846, 0.3846, 0.0]);
    let far = "{type: latency-observation-scorer-hub, parameters: {explorationRate: 0, minInflightGap: 4}}";
    let state = run.state.clone();
    let mut run = Run { scheduler: scheduler(far, ""), state, ..run };
    // The points are too close together, so there is one line from 110 ms on, with 8 ms for each request.
    assert_eq!(run.scores(), [1.0, 0.875, 0.375, 0.0]);
    let rounded =
        "{type: latency-observation-scorer-hub, parameters: {explorationRate: 0, roundTTFTStep: 0.04}}";
    run.scheduler = scheduler(rounded, "");
    assert_eq!(run.scores(), [1.0, 1.0, 0.0, 0.0], "120 and 160 ms");
    for reservation in held {
        run.state.release(reservation);
    }
}

#[test]
fn an_endpoint_of_which_little_is_known_gets_its_share_and_no_more() {
    let with = |rate: f64, endpoints| {
        let parameters = format!("{{explorationRate: {rate}}}");
        let mut run = Run::new(
            endpoints,
            &format!("{{type: latency-observation-scorer-hub, parameters: {parameters}}}"),
        );
        run.answer(0, |ahead| 100 + 10 * ahead, 11);
        run
    };
    let after = |mut run: Run| {
        run.now += 1000;
        run.scores()
    };
    assert_eq!(after(with(1e-12, 2)), [1.0, 0.0]);
    assert_eq!(after(with(1.0, 2)), [1.0, 1.0]);
    let mut run = with(1e-12, 3);
    for _ in 0..10 {
        // Always idle, so its curve has only a floor.
        run.answer(1, |_| 50, 1);
    }
    assert_eq!(after(run), [0.0, 0.0, 0.0], "the calibrated one is the slowest of the known ones");
}

#[test]
fn only_streams_count_and_an_endpoint_that_is_gone_is_forgotten() {
    let mut run = Run::new(2, SCORER);
    for _ in 0..20 {
        let mut whole = run.send(1);
        run.now += 9000;
        run.state.first_chunk(&mut whole, None);
        run.state.release(whole);
    }
    run.answer(0, |ahead| 100 + 10 * ahead, 11);
    run.answer(1, |ahead| 200 + 10 * ahead, 11);
    let mut late = run.send(1);
    run.now += 1000;
    assert_eq!(run.scores(), [1.0, 0.0]);
    run.state.forget(run.pool[1].endpoint.slot);
    run.state.first_chunk(&mut late, Some(run.now));
    assert_eq!(run.scores(), [1.0, 1.0]);
}

#[test]
fn the_floor_stays_through_a_lull_and_a_slow_time_does_not_move_it() {
    let mut run = Run::new(2, SCORER);
    for minute in 0..22 {
        run.answer(0, |_| if minute < 20 { 100 } else { 900 }, 1);
        run.answer(1, |_| 150, 1);
        run.now += 60_000;
    }
    // Nothing counts as recent any more.
    run.now += 200_000;
    assert_eq!(run.scores(), [1.0, 0.0]);
}

#[test]
fn a_curve_is_computed_again_after_the_interval() {
    let observer =
        "{type: latency-observer-producer-hub, name: o, parameters: {intervalDuration: 5s, minRequests: 1}}";
    let mut run = Run::new(2, &format!("{observer}, {SCORER}"));
    run.answer(0, |_| 100, 1);
    run.answer(1, |_| 200, 1);
    let reservation = run.send(0);
    run.state.release(reservation);
    assert_eq!(run.scores(), [1.0, 0.0]);
    // 50 ms at the second would change the order.
    for _ in 0..20 {
        run.answer(1, |_| 50, 1);
    }
    assert_eq!(run.scores(), [1.0, 0.0]);
    run.now += 5000;
    assert_eq!(run.scores(), [0.0, 1.0]);
}

#[test]
fn wrong_parameters_and_references_are_named() {
    let observer = |parameters: &str| {
        format!("{{type: latency-observer-producer-hub, name: o, parameters: {{{parameters}}}}}")
    };
    let scorer = |parameters: &str| {
        format!("{{type: latency-observation-scorer-hub, name: s, parameters: {{{parameters}}}}}")
    };
    for (plugin, part) in [
        (
            observer("intervalDuration: 0s"),
            "intervalDuration: expected a duration above 0 such as 50ms, found \"0s\"",
        ),
        (observer("bucketDuration: soon"), "bucketDuration: "),
        (observer("windowSize: 0"), "windowSize: expected a number from 1 to 100000, found 0"),
        (observer("windowSize: 50"), "maxRequests: expected at most windowSize, which is 50, found 100"),
        (observer("bucketHistorySize: 1"), "bucketHistorySize: expected a number from 2 to 100000, found 1"),
        (
            observer("lowPercentile: 50"),
            "expected 0 < lowPercentile < typicalPercentile < 100, found 50 and 50",
        ),
        (
            observer("inFlightLoadProducerName: x"),
            "inFlightLoadProducerName of plugin \"o\" refers to plugin \"x\"",
        ),
        (scorer("explorationRate: 1.5"), "explorationRate: expected a number from 0 to 1, found 1.5"),
        (scorer("minInflightGap: 0"), "minInflightGap: expected a number above 0, found 0"),
        (scorer("roundTTFTStep: -1"), "roundTTFTStep: expected 0 or more, found -1"),
        (
            scorer("ttftPercentilesProducerName: x"),
            "ttftPercentilesProducerName of plugin \"s\" refers to plugin \"x\", which is not a declared \
             latency-observer-producer-hub",
        ),
    ] {
        let error = try_scheduler(&plugin, "").unwrap_err().to_string();
        assert!(error.contains(part), "{plugin}: {error}");
    }
    let both = format!("{}, {}", observer(""), scorer("ttftPercentilesProducerName: o"));
    let sources = "dataLayer: {sources: [{pluginRef: o}]}";
    try_scheduler(&both, sources).unwrap();
    let extractors = "dataLayer: {sources: [{pluginRef: o, extractors: [{pluginRef: c}]}]}";
    let error =
        try_scheduler(&format!("{both}, {{type: core-metrics-extractor, name: c}}"), extractors).unwrap_err();
    assert!(error.to_string().contains("dataLayer.sources[0].extractors: "), "{error}");
    let text = format!("apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\nplugins: [{both}]\n");
    let config = EndpointPickerConfig::parse(&text).unwrap();
    let refused = Scheduler::new(&config, Options::default());
    assert!(matches!(refused, Err(ConfigError::Experimental { .. })));
}
