//! Pods that pull a cached prompt from each other.

use rand::{SeedableRng, rngs::StdRng};

use super::{REQUEST, RequestHeaders, idle, scheduler, try_scheduler};
use crate::{Metrics, Prompt, Request, Snapshot};

const HEADER: &str = "x-kv-cache-source-host-port";

#[test]
fn a_pod_that_has_more_of_the_prompt_is_named() {
    let pick = |parameters: &str, holder: usize, computing: usize| {
        let plugins =
            format!("{{type: queue-scorer}}, {{type: p2p-source-producer, parameters: {parameters}}}");
        let scheduler = scheduler(&plugins, "");
        let mut state = scheduler.state();
        let prompts = [Prompt::from(vec![b'x'; 4000])];
        let headers = RequestHeaders::default();
        let request = Request { prompts: &prompts, headers: &headers, ..REQUEST };
        let mut random = StdRng::seed_from_u64(1);
        let pool = idle(2);
        let first = scheduler.schedule(&state, &request, &pool[holder..=holder], 0, &mut random).unwrap();
        let reservation = scheduler.commit(&mut state, &first);
        state.release(reservation);
        // The other endpoint has a queue, so it is not picked.
        let pool: Vec<Snapshot> = idle(2)
            .into_iter()
            .enumerate()
            .map(|(index, mut snapshot)| {
                let waiting = if index == computing { 0.0 } else { 5.0 };
                snapshot.metrics = Metrics { waiting, ..Metrics::default() }.into();
                snapshot
            })
            .collect();
        let decision = scheduler.schedule(&state, &request, &pool, 0, &mut random).unwrap();
        assert_eq!(decision.primary_run().targets, [computing]);
        let named = decision.set_headers.iter().find(|(name, _)| *name == HEADER);
        assert_ne!(named.is_some(), decision.remove_headers.contains(&HEADER));
        named.map(|(_, value)| value.clone())
    };
    assert_eq!(pick("{}", 0, 1).as_deref(), Some("10.0.0.1:8000"));
    assert_eq!(pick("{}", 0, 0), None, "it has it itself");
    assert_eq!(pick("{minCachedTokenDelta: 2000}", 0, 1), None, "it is not worth it");
}

#[test]
fn what_it_cannot_read_is_refused() {
    let precise = "{type: precise-prefix-cache-producer}, {type: p2p-source-producer, parameters: \
                   {prefixMatchInfoProducerName: precise-prefix-cache-producer}}";
    for (plugins, named) in [
        (precise, "precise-prefix-cache-producer"),
        ("{type: p2p-source-producer, parameters: {minCachedTokenDelta: 0}}", "minCachedTokenDelta"),
    ] {
        let text = try_scheduler(plugins, "").unwrap_err().to_string();
        assert!(text.contains(named), "{text}");
    }
}
