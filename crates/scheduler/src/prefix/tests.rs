use proptest::prelude::*;

use super::{PrefixIndex, Settings};
use crate::{
    Metrics, Prompt, Request, Slot, Snapshot,
    tests::{REQUEST, snapshot},
};

fn endpoint(slot: u32, num_blocks: u32) -> Snapshot {
    snapshot(slot, Metrics { block_size: 16, num_blocks, ..Metrics::default() }, &[])
}

fn request<'a>(prompts: &'a [Prompt], salt: &'a str) -> Request<'a> {
    Request { cache_salt: salt, prompts, ..REQUEST }
}

/// A prompt of `count` 64-token blocks. Each letter gives a different prompt.
fn blocks(count: usize, letter: u8) -> Vec<Prompt> {
    vec![Prompt::from(vec![letter; count * 256])]
}

fn send(index: &mut PrefixIndex, to: &Snapshot, prompts: &[Prompt]) {
    let matches = index.matches(&request(prompts, ""), std::slice::from_ref(to));
    index.learn(to.endpoint.slot, &matches, &to.metrics);
}

fn matched(index: &PrefixIndex, at: &[Snapshot], prompts: &[Prompt]) -> Vec<u32> {
    let matches = index.matches(&request(prompts, ""), at);
    (0..at.len()).map(|candidate| matches.matched(candidate)).collect()
}

#[test]
fn what_was_sent_somewhere_matches_there_as_far_as_it_goes() {
    let pods = [endpoint(0, 0), endpoint(100, 0)];
    let mut index = PrefixIndex::new(Settings::default());
    send(&mut index, &pods[1], &blocks(4, b'a'));
    let mut longer = blocks(4, b'a');
    longer[0].bytes.extend(vec![b'b'; 700]);
    let matches = index.matches(&request(&longer, ""), &pods);
    assert_eq!((matches.matched(0), matches.matched(1), matches.total()), (0, 4, 7));
    assert!(!matches.is_cold());
    assert!(index.matches(&request(&longer, "salt"), &pods).is_cold());
}

#[test]
fn capacity_is_in_tokens_and_the_least_recently_used_goes_first() {
    // 32 blocks of 16 tokens are 8 of 64.
    let pod = [endpoint(0, 32)];
    let mut index = PrefixIndex::new(Settings::default());
    for letter in [b'a', b'b'] {
        send(&mut index, &pod[0], &blocks(4, letter));
    }
    send(&mut index, &pod[0], &blocks(4, b'a'));
    send(&mut index, &pod[0], &blocks(2, b'c'));
    assert_eq!(index.len(), 8);
    assert_eq!(matched(&index, &pod, &blocks(4, b'a')), [4], "used again");
    assert_eq!(matched(&index, &pod, &blocks(4, b'b')), [2], "its end was forgotten first");
}

#[test]
fn a_prompt_longer_than_the_capacity_is_kept_until_the_next() {
    let pod = [endpoint(0, 8)];
    let mut index = PrefixIndex::new(Settings::default());
    send(&mut index, &pod[0], &blocks(16, b'a'));
    assert_eq!(matched(&index, &pod, &blocks(16, b'a')), [16]);
    send(&mut index, &pod[0], &blocks(1, b'b'));
    assert!(index.len() <= 2);
}

#[test]
fn a_gap_ends_a_match() {
    let pods = [endpoint(0, 0), endpoint(1, 0)];
    let mut index = PrefixIndex::new(Settings { capacity: 3, auto_tune: false, ..Settings::default() });
    send(&mut index, &pods[0], &blocks(3, b'a'));
    // Evicts all of the first endpoint's blocks but one, from the end.
    send(&mut index, &pods[0], &blocks(2, b'b'));
    send(&mut index, &pods[1], &blocks(3, b'a'));
    assert_eq!(matched(&index, &pods, &blocks(3, b'a')), [1, 3]);
}

#[test]
fn an_endpoint_that_is_gone_leaves_nothing() {
    let pods = [endpoint(0, 0), endpoint(70, 0)];
    let mut index = PrefixIndex::new(Settings::default());
    for pod in &pods {
        send(&mut index, pod, &blocks(4, b'a'));
    }
    index.forget(Slot(70));
    assert_eq!(matched(&index, &pods, &blocks(4, b'a')), [4, 0]);
    index.forget(Slot(0));
    assert_eq!(index.len(), 0);
}

#[test]
fn a_cap_on_the_prefix_limits_what_is_hashed() {
    let pod = [endpoint(0, 0)];
    let long = blocks(10, b'a');
    let total = |settings| PrefixIndex::new(settings).matches(&request(&long, ""), &pod).total();
    let usual = Settings::default();
    assert_eq!(total(Settings { max_tokens: 128, ..usual.clone() }), 2);
    assert_eq!(total(Settings { max_tokens: 0, max_blocks: 3, ..usual.clone() }), 3);
    assert_eq!(total(Settings { max_tokens: 0, max_blocks: 0, ..usual }), 10);
}

proptest! {
    /// The index never holds more than its capacity or the last prompt, whichever is larger.
    #[test]
    fn memory_is_bounded(sends in proptest::collection::vec((0..3_u32, 1..12_usize, b'a'..b'e'), 1..60)) {
        let pods: Vec<_> = (0..3).map(|slot| endpoint(slot, 0)).collect();
        let mut index = PrefixIndex::new(Settings { capacity: 6, auto_tune: false, ..Settings::default() });
        for (slot, count, letter) in sends {
            send(&mut index, &pods[slot as usize], &blocks(count, letter));
            prop_assert!(index.held(Slot(slot)) <= count.max(6));
            prop_assert_eq!((0..3).map(|slot| index.held(Slot(slot))).sum::<usize>(), index.len());
            prop_assert_eq!(matched(&index, &pods, &blocks(count, letter))[slot as usize] as usize, count);
        }
    }
}

/// A prompt with `shared` common blocks at the start, and one block of its own.
fn forked(shared: usize, own: u8) -> Vec<Prompt> {
    let mut prompts = blocks(shared, b's');
    prompts[0].bytes.extend(vec![own; 256]);
    prompts
}

fn commit(index: &mut PrefixIndex, to: &Snapshot, prompts: &[Prompt]) {
    let matches = index.matches(&request(prompts, ""), std::slice::from_ref(to));
    index.fork(&matches);
    index.learn(to.endpoint.slot, &matches, &to.metrics);
}

#[test]
fn a_prefix_that_many_prompts_leave_ties_nobody() {
    let pods = [endpoint(0, 0), endpoint(1, 0)];
    let mut index = PrefixIndex::new(Settings { shared_after: 3, ..Settings::default() });
    for own in b'a'..=b'c' {
        commit(&mut index, &pods[0], &forked(4, own));
        let matches = index.matches(&request(&forked(4, b'z'), ""), &pods);
        assert_eq!((matches.matched(0), matches.own(0)), (4, 4), "{own}: not many yet");
    }
    commit(&mut index, &pods[0], &forked(4, b'd'));
    let matches = index.matches(&request(&forked(4, b'z'), ""), &pods);
    assert_eq!((matches.matched(0), matches.own(0), matches.total()), (4, 0, 5));
    assert!(matches.is_cold() && matches.ratio(0) <= 0.0);
    let again = index.matches(&request(&forked(4, b'a'), ""), &pods);
    assert_eq!((again.matched(0), again.own(0)), (5, 1), "the rest of the prompt still ties it");
    assert!(!again.is_cold() && again.ratio(0) >= 1.0 && again.ratio(1) <= 0.0);
}

#[test]
fn the_turns_of_one_conversation_share_nothing_with_others() {
    let pods = [endpoint(0, 0)];
    let mut index = PrefixIndex::new(Settings { shared_after: 3, ..Settings::default() });
    let mut prompts = vec![Prompt::default()];
    for turn in 0..30_u8 {
        // Each turn ends within a block, so the next turn's blocks differ from this turn's last block.
        prompts[0].bytes.extend(vec![turn; 300]);
        let matches = index.matches(&request(&prompts, ""), &pods);
        assert_eq!(matches.own(0), matches.matched(0), "turn {turn}");
        commit(&mut index, &pods[0], &prompts);
    }
    // Sending the same prompt many times causes no forks.
    for _ in 0..10 {
        commit(&mut index, &pods[0], &prompts);
    }
    let matches = index.matches(&request(&prompts, ""), &pods);
    assert_eq!(matches.own(0), matches.total());
}

#[test]
fn without_the_setting_every_prefix_counts() {
    let pods = [endpoint(0, 0)];
    let mut index = PrefixIndex::new(Settings::default());
    for own in b'a'..=b'k' {
        commit(&mut index, &pods[0], &forked(4, own));
    }
    let matches = index.matches(&request(&forked(4, b'z'), ""), &pods);
    assert_eq!((matches.own(0), matches.matched(0)), (4, 4));
}
