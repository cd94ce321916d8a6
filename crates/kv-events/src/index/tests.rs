//! Compares the index with a simple model, and tests single cases.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::event::ExtraKey;

const MODEL: &str = "model";

fn index(entries: usize) -> Index {
    Index::new(Limits { block_tokens: 2, entries, ..Limits::default() })
}

fn stored(hashes: &[u64], parent: Option<u64>, tokens: &[u32]) -> Stored {
    let block_size = tokens.len() / hashes.len();
    Stored {
        hashes: hashes.to_vec(),
        parent,
        tokens: tokens.to_vec(),
        block_size,
        medium: "gpu".into(),
        ..Stored::default()
    }
}

fn apply(index: &mut Index, holder: u32, stored: Stored) -> Outcome {
    index.apply(holder, MODEL, &Event::Stored(Box::new(stored)))
}

fn held(index: &Index, tokens: &[u32]) -> Vec<f64> {
    index.held(&index.keys(MODEL, tokens, ""), &[0, 1])
}

#[test]
fn blocks_count_from_the_first_on_and_only_where_they_are() {
    let mut index = index(100);
    assert_eq!(apply(&mut index, 0, stored(&[10, 11], None, &[1, 2, 3, 4])), Outcome::Applied);
    assert_eq!(apply(&mut index, 0, stored(&[12], Some(11), &[5, 6])), Outcome::Applied);
    assert_eq!(apply(&mut index, 1, stored(&[12], Some(11), &[5, 6])), Outcome::UnknownParent);
    assert_eq!(held(&index, &[1, 2, 3, 4, 5, 6, 7, 8]), [3.0, 0.0]);
    assert_eq!(held(&index, &[1, 2, 9, 9, 5, 6]), [1.0, 0.0]);
    let removed = Event::Removed { hashes: vec![11], medium: "gpu".into() };
    index.apply(0, MODEL, &removed);
    assert_eq!(held(&index, &[1, 2, 3, 4, 5, 6]), [1.0, 0.0], "what follows a gap is of no use");
    index.apply(0, MODEL, &Event::Cleared);
    assert!(index.is_empty());
    assert_eq!(held(&index, &[1, 2]), [0.0, 0.0]);
}

#[test]
fn models_adapters_salts_and_images_keep_blocks_apart() {
    let mut index = index(100);
    apply(&mut index, 0, stored(&[1], None, &[1, 2]));
    let adapter = Stored { lora_name: Some("adapter".into()), ..stored(&[2], None, &[1, 2]) };
    apply(&mut index, 1, adapter);
    let salted = Stored { extra: vec![vec![ExtraKey::Text("salt".into())]], ..stored(&[3], None, &[1, 2]) };
    apply(&mut index, 2, salted);
    let unnamed = Stored { lora_id: Some(1), ..stored(&[4], None, &[1, 2]) };
    apply(&mut index, 3, unnamed);
    let image = Stored { extra: vec![vec![ExtraKey::Other(vec![0x92])]], ..stored(&[5], None, &[1, 2]) };
    apply(&mut index, 4, image);
    let all = [0, 1, 2, 3, 4];
    let of = |model: &str, salt: &str| index.held(&index.keys(model, &[1, 2], salt), &all);
    assert_eq!(of(MODEL, ""), [1.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(of("adapter", ""), [0.0, 1.0, 0.0, 0.0, 0.0]);
    assert_eq!(of(MODEL, "salt"), [0.0, 0.0, 1.0, 0.0, 0.0]);
    assert_eq!(of("other", ""), [0.0; 5]);
}

#[test]
fn the_best_tier_counts_and_larger_blocks_are_several() {
    let mut index = index(100);
    let cpu = Stored { medium: "cpu".into(), ..stored(&[1], None, &[1, 2, 3, 4]) };
    apply(&mut index, 0, cpu);
    assert_eq!(held(&index, &[1, 2, 3, 4]), [1.6, 0.0]);
    apply(&mut index, 0, stored(&[1], None, &[1, 2, 3, 4]));
    assert_eq!(held(&index, &[1, 2, 3, 4]), [2.0, 0.0]);
    index.apply(0, MODEL, &Event::Removed { hashes: vec![1], medium: "gpu".into() });
    assert_eq!(held(&index, &[1, 2, 3, 4]), [1.6, 0.0]);
    assert_eq!(apply(&mut index, 1, stored(&[9], None, &[1, 2, 3])), Outcome::Unusable);
    assert_eq!(apply(&mut index, 1, stored(&[9], None, &[1; 130])), Outcome::Unusable);
    assert_eq!(apply(&mut index, 1, stored(&[9], None, &[1; 128])), Outcome::Applied);
    assert_eq!(
        apply(&mut index, 1, Stored { tokens: vec![1], ..stored(&[9], None, &[1, 2]) }),
        Outcome::Unusable
    );
}

#[test]
fn an_endpoint_that_invents_tiers_uses_up_only_its_own_numbers() {
    let mut index = index(10_000);
    let on = |medium: &str| Stored { medium: medium.to_owned(), ..stored(&[1], None, &[1, 2]) };
    for number in 0..100 {
        apply(&mut index, 0, on(&format!("tier {number}")));
        apply(&mut index, 0, on(&"x".repeat(1000 + number)));
    }
    assert_eq!(
        index.held_by(0),
        tiers::MAX_OWN + 1,
        "further tiers and those with long names share a number"
    );
    let removed = |medium: &str| Event::Removed { hashes: vec![1], medium: medium.to_owned() };
    apply(&mut index, 1, on("cpu"));
    assert_eq!(held(&index, &[1, 2]), [1.0, 0.8]);
    apply(&mut index, 1, on("disk"));
    assert_eq!((index.held_by(1), held(&index, &[1, 2])[1]), (2, 1.0), "each tier has its own block");
    let next = Stored { parent: Some(1), ..stored(&[2], None, &[3, 4]) };
    assert_eq!(apply(&mut index, 1, next), Outcome::Applied);
    index.apply(1, MODEL, &removed("an unknown tier"));
    assert_eq!(index.held_by(1), 3);
    index.forget(0);
    apply(&mut index, 0, on("disk"));
    index.apply(0, MODEL, &removed("disk"));
    assert_eq!(index.held_by(0), 0, "an endpoint that was forgotten has all its numbers again");
}

#[test]
fn the_least_recently_used_block_is_evicted() {
    let mut index = index(3);
    apply(&mut index, 0, stored(&[1, 2], None, &[1, 2, 3, 4]));
    apply(&mut index, 1, stored(&[1], None, &[7, 8]));
    let keys = index.keys(MODEL, &[1, 2, 3, 4], "");
    index.used(&keys);
    apply(&mut index, 1, stored(&[2], None, &[9, 9]));
    assert_eq!(index.len(), 3);
    assert_eq!(held(&index, &[1, 2, 3, 4]), [2.0, 0.0]);
    assert_eq!(held(&index, &[7, 8]), [0.0, 0.0]);
    apply(&mut index, 1, stored(&[3], None, &[9, 8]));
    assert_eq!(held(&index, &[1, 2, 3, 4]), [1.0, 0.0], "the last block of a prompt goes before the first");
}

#[test]
fn an_endpoint_that_gives_a_block_ever_new_hashes_adds_no_entries_without_end() {
    let mut index = index(100_000);
    apply(&mut index, 1, stored(&[1], None, &[1, 2, 3, 4]));
    for hash in 0..1000 {
        apply(&mut index, 0, stored(&[hash], None, &[1, 2, 3, 4]));
        apply(&mut index, 0, stored(&[1000 + hash], None, &[u32::try_from(hash).unwrap(), 0]));
    }
    assert_eq!(index.held_by(0), 1000 + MAX_HASHES);
    assert_eq!(held(&index, &[1, 2, 3, 4]), [2.0, 2.0]);
    let removed = |hash| Event::Removed { hashes: vec![hash], medium: "gpu".into() };
    for hash in (0..1000).rev().take(MAX_HASHES - 1) {
        index.apply(0, MODEL, &removed(hash));
    }
    assert_eq!(held(&index, &[1, 2, 3, 4]), [2.0, 2.0], "the newest hashes stay");
    index.apply(0, MODEL, &removed(1000 - MAX_HASHES as u64));
    assert_eq!(held(&index, &[1, 2, 3, 4]), [0.0, 2.0]);
}

#[test]
fn an_endpoint_is_forgotten_in_parts() {
    let mut index = index(100);
    for hash in 0..10 {
        apply(&mut index, 0, stored(&[hash], None, &tokens(hash)));
    }
    apply(&mut index, 1, stored(&[1], None, &tokens(1)));
    assert!(index.forget_part(0, 4));
    assert_eq!((index.held_by(0), index.len()), (6, 7));
    assert!(index.forget_part(0, 4));
    assert!(!index.forget_part(0, 4) && !index.forget_part(0, 4));
    assert_eq!((index.held_by(0), index.len()), (0, 1));
    assert_eq!(held(&index, &tokens(1)), [0.0, 1.0]);
}

#[test]
fn a_block_that_is_expected_counts_until_its_time_is_over() {
    let mut index = index(100);
    let mut expected = ExpectedBlocks::new(100);
    let prompt = index.keys(MODEL, &[1, 2, 3, 4, 5, 6], "");
    apply(&mut index, 0, stored(&[1], None, &[1, 2]));
    expected.note(0, &prompt[..2], 10, 20);
    expected.note(1, &prompt, 10, 20);
    assert_eq!(index.held_or_expected(&prompt, &[0, 1], &expected, 19), [2.0, 3.0]);
    assert_eq!(index.held_or_expected(&prompt, &[0, 1], &expected, 20), [1.0, 0.0]);
}

/// The model's data about a block: how many times it was stored, and its tokens from the start of the prompt.
type Model = BTreeMap<(u32, bool, u64), (u32, Vec<u32>)>;

#[derive(Debug, Clone)]
enum Op {
    Store { holder: u32, cpu: bool, parent: Option<u64>, hashes: Vec<u64> },
    Remove { holder: u32, cpu: bool, hash: u64 },
    Clear { holder: u32 },
    Use { path: Vec<u64> },
}

fn op() -> impl Strategy<Value = Op> {
    let holder = 0..3_u32;
    let hash = 0..12_u64;
    prop_oneof![
        6 => (holder.clone(), any::<bool>(), prop::option::of(hash.clone()), prop::collection::vec(hash.clone(), 1..4))
            .prop_map(|(holder, cpu, parent, hashes)| Op::Store { holder, cpu, parent, hashes }),
        4 => (holder.clone(), any::<bool>(), hash.clone())
            .prop_map(|(holder, cpu, hash)| Op::Remove { holder, cpu, hash }),
        1 => holder.prop_map(|holder| Op::Clear { holder }),
        1 => prop::collection::vec(hash, 1..4).prop_map(|path| Op::Use { path }),
    ]
}

/// Returns the tokens of a block, which differ for each hash.
fn tokens(hash: u64) -> [u32; 2] {
    let token = u32::try_from(hash).unwrap();
    [token, token + 100]
}

fn medium(cpu: bool) -> String {
    if cpu { "cpu" } else { "gpu" }.to_owned()
}

proptest! {
    #[test]
    fn the_index_equals_a_model_that_keeps_lists(ops in prop::collection::vec(op(), 0..60)) {
        let mut index = index(10_000);
        let mut model = Model::new();
        for op in ops {
            match op {
                Op::Store { holder, cpu, parent, hashes } => {
                    let mut path = match parent {
                        None => Some(Vec::new()),
                        // The parent may be on either tier. Both tiers must not have different tokens under one hash.
                        Some(parent) => {
                            let on = |cpu| model.get(&(holder, cpu, parent)).map(|(_, path)| path.clone());
                            let both = (on(true), on(false));
                            prop_assume!(both.0.is_none() || both.1.is_none() || both.0 == both.1);
                            both.0.or(both.1)
                        }
                    };
                    let all: Vec<u32> = hashes.iter().flat_map(|&hash| tokens(hash)).collect();
                    let event = Stored { medium: medium(cpu), ..stored(&hashes, parent, &all) };
                    let outcome = apply(&mut index, holder, event);
                    prop_assert_eq!(outcome == Outcome::Applied, path.is_some());
                    if let Some(path) = &mut path {
                        for hash in hashes {
                            path.extend(tokens(hash));
                            let held = model.entry((holder, cpu, hash)).or_default();
                            held.0 += 1;
                            held.1.clone_from(path);
                        }
                    }
                }
                Op::Remove { holder, cpu, hash } => {
                    index.apply(holder, MODEL, &Event::Removed { hashes: vec![hash], medium: medium(cpu) });
                    if let Some(held) = model.get_mut(&(holder, cpu, hash)) {
                        held.0 -= 1;
                        if held.0 == 0 {
                            model.remove(&(holder, cpu, hash));
                        }
                    }
                }
                Op::Clear { holder } => {
                    index.apply(holder, MODEL, &Event::Cleared);
                    model.retain(|(owner, ..), _| *owner != holder);
                }
                Op::Use { path } => {
                    let path: Vec<u32> = path.into_iter().flat_map(tokens).collect();
                    index.used(&index.keys(MODEL, &path, ""));
                }
            }
            prop_assert_eq!(index.len(), model.len());
        }
        let paths: Vec<Vec<u32>> = model.values().map(|(_, path)| path.clone()).collect();
        for path in paths {
            let expected: Vec<f64> = (0..3)
                .map(|holder| {
                    let mut sum = 0.0;
                    for length in (2..=path.len()).step_by(2) {
                        let on = |cpu: bool| model.iter().any(|((owner, on_cpu, _), (_, held))| {
                            (*owner, *on_cpu, held.as_slice()) == (holder, cpu, &path[..length])
                        });
                        sum += match (on(false), on(true)) {
                            (true, _) => 1.0,
                            (false, true) => 0.8,
                            (false, false) => break,
                        };
                    }
                    sum
                })
                .collect();
            prop_assert_eq!(index.held(&index.keys(MODEL, &path, ""), &[0, 1, 2]), expected);
        }
    }

    #[test]
    fn the_index_never_exceeds_its_size_and_forgets_whole_endpoints(
        ops in prop::collection::vec((0..3_u32, 0..40_u64), 0..80), size in 0..6_usize,
    ) {
        let mut index = index(size);
        for (holder, hash) in ops {
            apply(&mut index, holder, stored(&[hash], None, &tokens(hash)));
            prop_assert!(index.len() <= size);
            prop_assert!(index.entries.len() <= size);
            prop_assert_eq!(index.by_key.values().map(Vec::len).sum::<usize>(), index.len());
        }
        for holder in 0..3 {
            index.forget(holder);
        }
        prop_assert!(index.is_empty() && index.by_key.is_empty() && index.oldest == NONE && index.newest == NONE);
    }
}
