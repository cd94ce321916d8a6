//! What one policy did with a request, and what decided it.

use serde::Serialize;

use crate::{
    numbers::{float, rounded},
    sample::{Outcome, SampledPick, SampledRequest},
};

/// Totals this close are equal. They are kept with the precision of `f32`.
const EPSILON: f32 = 1e-5;

/// What decided that a request went to an endpoint and not to a certain other one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decider {
    /// The scorer with the greatest difference between the two.
    Scorer(String),
    /// A filter dropped the other one.
    Filter(String),
    /// Both had the same score.
    Chance,
    /// The profile's picker took the one with the lower score.
    Picker,
    /// The other one is not in this pool, or was not at this time.
    Absence,
    /// The request was refused for this reason.
    Refusal(&'static str),
}

/// A scorer's part of a choice.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExampleScore {
    /// Its name.
    pub plugin: String,
    /// Its weight.
    pub weight: f64,
    /// Its score for the endpoint that was chosen.
    pub score: f64,
    /// Its score for the rival, unless that was no candidate.
    pub rival_score: Option<f64>,
}

/// What one policy did with a request.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choice {
    /// The number of the endpoint. `None` if the request was refused before.
    pub endpoint: Option<usize>,
    /// Tokens of the prompt that it had in its cache.
    pub cached_tokens: usize,
    /// The number of the endpoint that it is compared with: the one with more of the prompt, or the other policy's.
    pub rival: Option<usize>,
    /// Tokens of the prompt that the rival had in its cache, if that was the most of all.
    pub rival_cached_tokens: Option<usize>,
    /// The scores.
    pub scores: Vec<ExampleScore>,
    /// The weighted sum of the scores.
    pub total: f64,
    /// That of the rival, unless it was no candidate.
    pub rival_total: Option<f64>,
    /// What decided.
    pub decided_by: Decider,
    /// Milliseconds in the picker's queue, in the engine's, and to the first token. `None` without an answer.
    pub times: Option<ExampleTimes>,
}

/// Milliseconds of a request.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ExampleTimes {
    /// In the picker's queue.
    pub picker_queue: f64,
    /// In the engine's queue.
    pub engine_queue: f64,
    /// To the first token.
    pub ttft: f64,
}

/// Describes what happened to a request, whose way with the other policy is `others`.
pub(crate) fn choice(own: &SampledRequest, others: &SampledRequest) -> Choice {
    let times = match own.outcome {
        Outcome::Answered(times) => Some(ExampleTimes {
            picker_queue: millis(times.picker_queue()),
            engine_queue: millis(times.engine_queue()),
            ttft: millis(times.ttft()),
        }),
        Outcome::Refused(_) | Outcome::Open => None,
    };
    let pick = own.pick.as_ref();
    let rival = pick.and_then(|pick| compared_endpoint(pick, others.pick.as_ref()));
    let place = pick.and_then(|pick| pick.place(pick.endpoint));
    let rival_place = pick.zip(rival).and_then(|(pick, rival)| pick.place(rival));
    let at = |scores: &[f32], place: Option<usize>| Some(rounded(f64::from(*scores.get(place?)?)));
    let total = |place: Option<usize>| at(&pick?.totals, place);
    let scores = pick.iter().flat_map(|pick| &pick.scorers).map(|scorer| ExampleScore {
        plugin: scorer.plugin.clone(),
        weight: scorer.weight,
        score: at(&scorer.scores, place).unwrap_or_default(),
        rival_score: at(&scorer.scores, rival_place),
    });
    let holder = pick.and_then(|pick| pick.holder).filter(|(holder, _)| Some(*holder) == rival);
    Choice {
        endpoint: pick.map(|pick| pick.endpoint),
        cached_tokens: pick.map_or(0, |pick| pick.cached_tokens.min(own.prompt_tokens)),
        rival,
        rival_cached_tokens: holder.map(|(_, tokens)| tokens.min(own.prompt_tokens)),
        scores: scores.collect(),
        total: total(place).unwrap_or_default(),
        rival_total: total(rival_place),
        decided_by: decider(own, others),
        times,
    }
}

/// The endpoint that a choice is compared with: the one that has more of the prompt, the one that the other policy chose, or else the
/// next best one.
fn compared_endpoint(pick: &SampledPick, others: Option<&SampledPick>) -> Option<usize> {
    let holder = pick.holder.map(|(holder, _)| holder).filter(|_| pick.keeps_prefix() == Some(false));
    let chosen = others.map(|others| others.endpoint).filter(|endpoint| *endpoint != pick.endpoint);
    holder.or(chosen).or_else(|| {
        let rest = pick.scored.iter().zip(&pick.totals).filter(|(endpoint, _)| **endpoint != pick.endpoint);
        // The first of equals.
        rest.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(endpoint, _)| *endpoint)
    })
}

pub(crate) fn decider(own: &SampledRequest, others: &SampledRequest) -> Decider {
    if let Outcome::Refused(refusal) = own.outcome {
        return Decider::Refusal(refusal.reason());
    }
    let Some(pick) = &own.pick else { return Decider::Absence };
    let Some(rival) = compared_endpoint(pick, others.pick.as_ref()) else { return Decider::Absence };
    if let Some(filter) = pick.filter_of(rival) {
        return Decider::Filter(filter.to_owned());
    }
    let (Some(place), Some(rival)) = (pick.place(pick.endpoint), pick.place(rival)) else {
        return Decider::Absence;
    };
    let advantage = |scores: &[f32]| scores[place] - scores[rival];
    let total = advantage(&pick.totals);
    if total.abs() < EPSILON {
        return Decider::Chance;
    }
    if total < 0.0 {
        return Decider::Picker;
    }
    let advantages =
        pick.scorers.iter().map(|scorer| (f64::from(advantage(&scorer.scores)) * scorer.weight, scorer));
    advantages
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map_or(Decider::Chance, |(_, scorer)| Decider::Scorer(scorer.plugin.clone()))
}

fn millis(nanos: u64) -> f64 {
    rounded(float(nanos) / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{rejection::Refusal, sample::SampledScorer};

    /// A request that goes to an endpoint, with the scores of a prefix and of a queue scorer for the endpoints 0, 1 and 2.
    fn sent(endpoint: usize, prefix: [f32; 3], queue: [f32; 3]) -> SampledRequest {
        let scorer = |plugin: &str, weight, scores: [f32; 3]| SampledScorer {
            plugin: plugin.to_owned(),
            weight,
            scores: scores.to_vec(),
        };
        let pick = SampledPick {
            endpoint,
            cached_tokens: 0,
            holder: None,
            scored: vec![0, 1, 2],
            totals: prefix.iter().zip(queue).map(|(prefix, queue)| prefix * 2.0 + queue).collect(),
            scorers: vec![scorer("prefix", 2.0, prefix), scorer("queue", 1.0, queue)],
            dropped: vec![(3, 0)],
            filters: vec!["role".to_owned()],
        };
        SampledRequest {
            number: 7,
            session: None,
            turn: None,
            adapter: None,
            prompt_tokens: 10,
            pick: Some(pick),
            outcome: Outcome::Open,
        }
    }

    #[test]
    fn the_decider_is_the_plugin_or_the_limit_that_made_the_difference_to_the_other_endpoint() {
        let to = |endpoint| sent(endpoint, [0.0; 3], [0.0; 3]);
        let scored = |endpoint, other| decider(&sent(endpoint, [0.5, 0.0, 0.5], [0.5, 1.0, 0.5]), &to(other));
        assert_eq!(scored(0, 1), Decider::Scorer("prefix".to_owned()));
        assert_eq!(scored(1, 0), Decider::Picker);
        assert_eq!(scored(0, 2), Decider::Chance);
        assert_eq!(scored(0, 3), Decider::Filter("role".to_owned()));
        assert_eq!(scored(0, 4), Decider::Absence);
        // Without another choice, the next best one is the rival.
        assert_eq!(decider(&sent(1, [0.0; 3], [0.0, 1.0, 0.5]), &to(1)), Decider::Scorer("queue".to_owned()));
        let refused = SampledRequest { outcome: Outcome::Refused(Refusal::Expired), ..to(0) };
        assert_eq!(decider(&refused, &to(1)), Decider::Refusal("the time in the picker's queue is over"));
    }

    #[test]
    fn an_endpoint_with_more_of_the_prompt_is_the_rival() {
        let mut own = sent(1, [0.2, 0.0, 0.9], [0.1, 1.0, 0.0]);
        if let Some(pick) = &mut own.pick {
            (pick.holder, pick.cached_tokens) = (Some((2, 9)), 1);
        }
        let score = |plugin: &str, weight, score, rival_score| ExampleScore {
            plugin: plugin.to_owned(),
            weight,
            score,
            rival_score: Some(rival_score),
        };
        let expected = Choice {
            endpoint: Some(1),
            cached_tokens: 1,
            rival: Some(2),
            rival_cached_tokens: Some(9),
            scores: vec![score("prefix", 2.0, 0.0, 0.9), score("queue", 1.0, 1.0, 0.0)],
            total: 1.0,
            rival_total: Some(1.8),
            decided_by: Decider::Picker,
            times: None,
        };
        assert_eq!(choice(&own, &sent(0, [0.0; 3], [0.0; 3])), expected);
    }
}
