use std::{collections::BTreeMap, time::Duration};

use proptest::prelude::*;

use super::{Balance, Burst, BurstSettings};
use crate::{
    Metrics, Prompt, Request, Slot, Snapshot,
    tests::{REQUEST, snapshot, try_scheduler},
};

fn usual() -> BurstSettings {
    BurstSettings {
        window: Duration::from_millis(100),
        per_endpoint: usize::MAX,
        block_tokens: 64,
        max_blocks: 2048,
        shared_blocks: 0,
        max_requests: 1000,
        balance: Balance::Requests,
    }
}

/// Endpoints with these numbers of running requests.
fn pool(running: &[f64]) -> Vec<Snapshot> {
    let endpoint = |(slot, &running)| snapshot(slot, Metrics { running, ..Metrics::default() }, &[]);
    (0..).zip(running).map(endpoint).collect()
}

/// Places requests with these blocks, and returns their slots.
fn place(settings: BurstSettings, pool: &[Snapshot], requests: &[Vec<u64>]) -> Vec<Option<u32>> {
    let mut burst = Burst::new(settings);
    for blocks in requests {
        burst.join(blocks.clone(), pool).unwrap();
    }
    burst.place();
    (0..requests.len()).map(|number| burst.endpoint(number).map(|slot| slot.0)).collect()
}

fn request<'a>(prompts: &'a [Prompt], salt: &'a str, burst_endpoint: Option<Slot>) -> Request<'a> {
    Request { cache_salt: salt, prompts, burst_endpoint, ..REQUEST }
}

#[test]
fn requests_with_one_prompt_stay_together_and_others_are_left_alone() {
    let requests = [vec![1, 2], vec![7], vec![3, 4], vec![1, 2], vec![], vec![3, 4], vec![], vec![1, 2]];
    let placed = place(usual(), &pool(&[0.0, 0.0]), &requests);
    assert_eq!(placed, [Some(0), None, Some(1), Some(0), None, Some(1), None, Some(0)]);
}

#[test]
fn an_idler_endpoint_comes_first() {
    let requests = [vec![1], vec![1], vec![2], vec![2]];
    assert_eq!(place(usual(), &pool(&[3.0, 0.0, 1.0]), &requests), [Some(1), Some(1), Some(2), Some(2)]);
}

#[test]
fn a_large_group_fills_one_endpoint_after_the_other() {
    let settings = BurstSettings { per_endpoint: 2, ..usual() };
    let placed = place(settings, &pool(&[0.0, 0.0]), &vec![vec![1]; 5]);
    assert_eq!(placed, [Some(0), Some(0), Some(1), Some(1), Some(0)], "all are full: the last goes anywhere");
}

#[test]
fn prompts_that_start_alike_stay_together_up_to_a_fair_share() {
    let requests = [vec![1, 2, 3], vec![1, 2, 4], vec![1, 2, 5], vec![1, 2, 6], vec![1, 8, 9], vec![1, 2]];
    let settings = BurstSettings { shared_blocks: 2, ..usual() };
    let placed = place(settings.clone(), &pool(&[0.0, 0.0]), &requests);
    assert_eq!(placed, [Some(0), Some(0), Some(0), Some(1), None, Some(1)]);
    let apart = place(BurstSettings { shared_blocks: 3, ..settings }, &pool(&[0.0, 0.0]), &requests);
    assert_eq!(apart, [None; 6], "three blocks are shared by nobody");
}

#[test]
fn several_requests_with_one_prompt_are_placed_before_single_ones() {
    let requests = [vec![1, 2, 3, 4], vec![1, 9], vec![1, 9]];
    let settings = BurstSettings { shared_blocks: 1, ..usual() };
    assert_eq!(place(settings, &pool(&[0.0, 0.0, 0.0]), &requests), [Some(1), Some(0), Some(0)]);
}

#[test]
fn what_has_to_be_computed_can_be_spread_instead_of_requests() {
    let long: Vec<u64> = (100..110).collect();
    let requests = [long.clone(), long, vec![1], vec![1], vec![2], vec![2], vec![3], vec![3]];
    let by_requests = place(usual(), &pool(&[0.0, 0.0]), &requests);
    let on_first = |placed: &[Option<u32>]| placed.iter().filter(|slot| **slot == Some(0)).count();
    assert_eq!(on_first(&by_requests), 4);
    let by_blocks =
        place(BurstSettings { balance: Balance::Blocks, ..usual() }, &pool(&[0.0, 0.0]), &requests);
    assert_eq!(on_first(&by_blocks), 2, "the long prompt is work enough");
}

#[test]
fn a_burst_has_room_for_so_many_and_forgets_those_that_leave() {
    let pool = pool(&[0.0, 0.0]);
    let mut burst = Burst::new(BurstSettings { max_requests: 2, ..usual() });
    assert_eq!(burst.join(vec![1], &pool), Some(0));
    assert_eq!(burst.join(vec![1], &pool), Some(1));
    assert_eq!(burst.join(vec![1], &pool), None);
    assert_eq!(burst.endpoint(0), None, "the window is not over");
    burst.leave(1);
    burst.place();
    assert!(burst.is_placed());
    assert_eq!(burst.join(vec![1], &pool), None, "it came too late");
    assert_eq!(burst.endpoint(0), None, "it is alone now");
}

#[test]
fn a_request_matches_whole_where_it_was_placed() {
    let settings = BurstSettings { max_blocks: 3, ..usual() };
    let prompts = [Prompt::from(vec![b'x'; 300]), Prompt::from(vec![b'y'; 5000]), Prompt::default()];
    let blocks = settings.blocks(&request(&prompts, "", None));
    assert_eq!(blocks.len(), 5, "two of the first, and the most of the second");
    assert_ne!(blocks, settings.blocks(&request(&prompts, "tenant", None)));
    let pool = pool(&[0.0, 0.0]);
    let matches = settings.matches(&request(&prompts, "", Some(Slot(1))), &pool);
    assert_eq!((matches.total(), matches.matched(0), matches.matched(1)), (5, 0, 5));
    assert!(settings.matches(&request(&prompts, "", Some(Slot(7))), &pool).is_cold(), "it is gone");
}

proptest! {
    /// For any requests: those that share a prompt are placed, on as few endpoints as the limit allows. Those that share
    /// nothing are not placed.
    #[test]
    fn every_group_stays_together(
        requests in proptest::collection::vec(proptest::collection::vec(0..3_u64, 0..4), 0..40),
        endpoints in 0..5_usize,
        per_endpoint in 1..5_usize,
        shared_blocks in 0..3_usize,
        by_blocks: bool,
    ) {
        // Turns numbers into block hashes, in which each hash stands for all blocks before it.
        let requests: Vec<Vec<u64>> = requests
            .iter()
            .map(|own| own.iter().scan(1, |before, block| { *before = *before * 3 + block; Some(*before) }).collect())
            .collect();
        let balance = if by_blocks { Balance::Blocks } else { Balance::Requests };
        let settings = BurstSettings { per_endpoint, shared_blocks, balance, ..usual() };
        let placed = place(settings, &pool(&vec![0.0; endpoints]), &requests);
        for (number, blocks) in requests.iter().enumerate() {
            let same: Vec<usize> = (0..requests.len()).filter(|&other| requests[other] == *blocks).collect();
            let start = blocks.get(..shared_blocks).filter(|start| !start.is_empty());
            let near = start.map_or(0, |start| requests.iter().filter(|other| other.starts_with(start)).count());
            let expected = endpoints > 0 && !blocks.is_empty() && (same.len() > 1 || near > 1);
            prop_assert_eq!(placed[number].is_some(), expected, "request {} of {:?}", number, requests);
            if expected && same.len() <= per_endpoint * endpoints {
                let mut used = BTreeMap::new();
                for &other in &same {
                    *used.entry(placed[other]).or_insert(0) += 1;
                }
                prop_assert!(used.values().all(|&count| count <= per_endpoint));
                prop_assert_eq!(used.len(), same.len().div_ceil(per_endpoint));
            }
        }
    }
}

#[test]
fn what_cannot_be_done_is_refused_by_name() {
    let plugins = |parameters: &str| {
        format!("{{type: burst-prefix-cache-producer, parameters: {parameters}}}, {{type: random-picker}}")
    };
    for (parameters, named) in [
        ("{windowDurationMs: 0}", "windowDurationMs"),
        ("{windowDurationMs: 10001}", "windowDurationMs"),
        ("{maxPerReplica: 0}", "maxPerReplica"),
        ("{maxPerReplica: -2}", "maxPerReplica"),
        ("{blockSizeTokens: 0}", "blockSizeTokens"),
        ("{maxPrefixTokensToMatch: 63}", "maxPrefixTokensToMatch"),
        ("{maxPrefixTokensToMatch: -1}", "maxPrefixTokensToMatch"),
        ("{minColocateBlocks: -1}", "minColocateBlocks"),
        ("{maxBatchSize: 0}", "maxBatchSize"),
        ("{balanceBy: luck}", "\"luck\""),
        ("{window: 1}", "window"),
    ] {
        let error = try_scheduler(&plugins(parameters), "").unwrap_err().to_string();
        assert!(
            error.contains(named) && error.contains("burst-prefix-cache-producer"),
            "{parameters}: {error}"
        );
    }
    let scheduler = try_scheduler(
        &plugins("{windowDurationMs: 5, maxPerReplica: 2, maxPrefixTokensToMatch: 640, minColocateBlocks: 3, maxBatchSize: -1, balanceBy: tokens}"),
        "",
    )
    .unwrap();
    let expected = BurstSettings {
        window: Duration::from_millis(5),
        per_endpoint: 2,
        max_blocks: 10,
        shared_blocks: 3,
        max_requests: usize::MAX,
        balance: Balance::Blocks,
        ..usual()
    };
    assert_eq!(scheduler.burst(), Some(&expected));
    let twice = format!("{}, {{type: burst-prefix-cache-producer, name: other}}", plugins("{}"));
    assert!(
        try_scheduler(&twice, "").unwrap_err().to_string().contains("another plugin already delays requests")
    );
    let peers =
        "{type: p2p-source-producer, parameters: {prefixMatchInfoProducerName: burst-prefix-cache-producer}}";
    let error = try_scheduler(&format!("{}, {peers}", plugins("{}")), "").unwrap_err().to_string();
    assert!(error.contains("does not know what is cached"), "{error}");
}
