//! Images, audio and videos go to the endpoints that have encoded them before.

use rand::{SeedableRng, rngs::StdRng};

use super::{REQUEST, idle, scheduler, try_scheduler};
use crate::{Decision, Media, Modality, Request, Scheduler, Snapshot, State};

fn image(name: &str) -> Media {
    Media::new(Modality::Image, name.as_bytes())
}

fn pick(scheduler: &Scheduler, state: &State, pool: &[Snapshot], media: &[Media]) -> Decision {
    let request = Request { multimodal: true, media, ..REQUEST };
    scheduler.schedule(state, &request, pool, 0, &mut StdRng::seed_from_u64(3)).unwrap()
}

fn sent(scheduler: &Scheduler, state: &mut State, pool: &[Snapshot], media: &[Media]) -> usize {
    let decision = pick(scheduler, state, pool, media);
    let reservation = scheduler.commit(state, &decision);
    state.release(reservation);
    decision.primary_run().targets[0]
}

fn scores(decision: &Decision) -> Vec<f64> {
    decision.primary_run().trace[0].scores.iter().map(|&(_, score)| score).collect()
}

#[test]
fn an_endpoint_scores_the_share_of_the_items_that_it_was_sent() {
    let scheduler = scheduler("{type: mm-embeddings-cache-scorer}", "");
    assert!(scheduler.looks_at_media());
    let (mut state, pool) = (scheduler.state(), idle(3));
    let cold = pick(&scheduler, &state, &pool, &[image("a")]);
    assert_eq!(scores(&cold), [0.0, 0.0, 0.0]);
    let first = sent(&scheduler, &mut state, &pool, &[image("a"), image("b")]);
    let four = [image("a"), image("b"), image("c"), Media::new(Modality::Audio, b"d")];
    let decision = pick(&scheduler, &state, &pool, &four);
    let mut expected = [0.0; 3];
    expected[first] = 0.5;
    assert_eq!(scores(&decision), expected);
    assert_eq!(decision.primary_run().targets, [first]);
    let lookups: Vec<_> = decision.encoder_lookups().collect();
    let [lookup] = lookups[..] else { panic!("one producer") };
    assert_eq!(&*lookup.plugin, "mm-embeddings-cache-producer");
    let has: Vec<_> = lookup.candidates().map(<[bool]>::to_vec).collect();
    assert_eq!(has[first], [true, true, false, false]);
    assert_eq!(pick(&scheduler, &state, &pool, &[]).encoder_lookups().count(), 0, "nothing was looked for");
    state.forget(pool[first].endpoint.slot);
    assert_eq!(scores(&pick(&scheduler, &state, &pool, &four)), [0.0; 3]);
}

#[test]
fn an_endpoint_is_taken_to_hold_what_its_encoder_cache_has_room_for() {
    let plugins = "{type: mm-embeddings-cache-producer, parameters: {cacheSizeInMBPerServer: 4}}, \
                   {type: mm-embeddings-cache-scorer}";
    let scheduler = scheduler(plugins, "");
    let (mut state, pool) = (scheduler.state(), idle(3));
    let pool = &pool[..1];
    for name in ["a", "b", "a", "c"] {
        sent(&scheduler, &mut state, pool, &[image(name)]);
    }
    // The cache has space for two items, and `b` was used longest ago.
    let holds = |name| scores(&pick(&scheduler, &state, pool, &[image(name)]))[0] > 0.0;
    assert_eq!([holds("a"), holds("b"), holds("c")], [true, false, true]);
}

#[test]
fn wrong_parameters_and_references_are_refused_by_name() {
    let refused = |plugins: &str| try_scheduler(plugins, "").unwrap_err().to_string();
    let both =
        "{type: mm-embeddings-cache-producer, parameters: {cacheSizeInMB: 1, cacheSizeInMBPerServer: 1}}";
    assert!(refused(both).contains("former name"));
    let large = "{type: mm-embeddings-cache-producer, parameters: {cacheSizeInMBPerServer: 99999999}}";
    assert!(refused(large).contains("99999999"));
    let named = "{type: mm-embeddings-cache-producer, name: images}, \
                 {type: mm-embeddings-cache-scorer, parameters: {producerName: image}}";
    let message = refused(named);
    assert!(message.contains("producerName") && message.contains("images"), "{message}");
}
