//! Sentences about what two policies do differently.

use std::fmt::Write as _;

use crate::{
    chart::number,
    choice::{Choice, Decider, ExampleTimes},
    difference::{Difference, Example, KindDifference, Means, Pair, RequestKind},
    numbers::float,
};

/// A second kind of requests is named if its times change by at least this part of the first kind's.
const MIN_PART: f64 = 0.2;
/// A wait is named if it is at least this part of the time to the first token.
const MIN_WAIT: f64 = 0.1;
/// The cause of a change is named if it changes the time to the first token by at least this part.
const MIN_CHANGE: f64 = 0.02;
/// Parts of a score below this are not printed.
const MIN_SCORE: f64 = 0.005;

/// Says which requests go elsewhere, what that changes, and what decides it, with an example.
pub(crate) fn sentences(difference: &Difference) -> Vec<String> {
    let Difference { first, other, sampled, kinds, stayed, example } = difference;
    if kinds.is_empty() {
        return vec![format!("of {sampled} sampled requests, none goes elsewhere{}", means(stayed))];
    }
    let change = |kind: &KindDifference| {
        kind.moved_means.ttft.change().abs() * float(kind.moved_means.requests as u64)
    };
    let threshold = kinds.first().map_or(0.0, change) * MIN_PART;
    let mentioned =
        kinds.iter().take(2).enumerate().filter(|(index, kind)| *index == 0 || change(kind) >= threshold);
    let mut sentences: Vec<String> = mentioned.map(|(_, kind)| of_kind(kind, first, other)).collect();
    if stayed.requests > 0 {
        let verb = if stayed.requests == 1 { "request goes" } else { "requests go" };
        sentences.push(format!("{} sampled {verb} to the same place{}", stayed.requests, means(stayed)));
    }
    sentences.extend(example.iter().flat_map(|example| of_example(example, first, other)));
    sentences
}

fn of_kind(kind: &KindDifference, first: &str, other: &str) -> String {
    let KindDifference { left_prefix, joined_prefix, refused, moved, .. } = *kind;
    let elsewhere = moved - left_prefix - joined_prefix - refused.first - refused.other;
    let parts = [
        (left_prefix, ["leaves", "leave"], "the endpoint that holds its prefix"),
        (joined_prefix, ["goes", "go"], "to the endpoint that holds its prefix"),
        (elsewhere, ["goes", "go"], "to another endpoint"),
        (refused.other, ["is", "are"], "refused"),
        (refused.first, ["is", "are"], "no longer refused"),
    ];
    let mut parts: Vec<_> = parts.into_iter().filter(|(count, ..)| *count > 0).collect();
    parts.sort_by_key(|(count, ..)| std::cmp::Reverse(*count));
    let parts = parts.into_iter().map(|(count, [one, many], what)| match count {
        1 => format!("1 {one} {what}"),
        _ => format!("{count} {many} {}", what.replace("its", "their")),
    });
    let parts = parts.collect::<Vec<_>>().join(", ");
    let deciders = [(&kind.first_deciders, first), (&kind.other_deciders, other)];
    let deciders = deciders.into_iter().filter_map(|(deciders, policy)| {
        let (decider, count) = deciders.first()?;
        Some(format!("{} ({count} of {moved}) in {policy}", of_decider(decider)?))
    });
    format!(
        "of {} sampled {}, {parts}{}; what decides is {}",
        kind.sampled,
        plural(kind.kind),
        means(&kind.moved_means),
        deciders.collect::<Vec<_>>().join(", and ")
    )
}

fn plural(kind: RequestKind) -> &'static str {
    match kind {
        RequestKind::Turn => "later turns of conversations",
        RequestKind::Adapter => "requests for adapters",
        RequestKind::CachedPrefix => "first requests with a cached prefix",
        RequestKind::LongPrompt => "long prompts without a cached prefix",
        RequestKind::Other => "requests without a cached prefix",
    }
}

/// Names what decides, if there was a choice.
fn of_decider(decider: &Decider) -> Option<String> {
    match decider {
        Decider::Scorer(plugin) => Some(format!("`{plugin}`")),
        Decider::Filter(plugin) => Some(format!("the filter `{plugin}`")),
        Decider::Chance => Some("chance".to_owned()),
        Decider::Picker => Some("the profile's picker".to_owned()),
        Decider::Absence => None,
        Decider::Refusal(reason) => Some(format!("a refusal, because {reason},")),
    }
}

/// Says how the means change, and which part of the time to the first token changes most.
fn means(means: &Means) -> String {
    if means.requests == 0 {
        return String::new();
    }
    let parts = [
        (means.prefill, "the computation of the prompt"),
        (means.engine_queue, "the engine's queue"),
        (means.picker_queue, "the picker's queue"),
    ];
    let most = parts.into_iter().max_by(|(a, _), (b, _)| a.change().abs().total_cmp(&b.change().abs()));
    let mut text = format!(": {} ms on average", pair("TTFT ", means.ttft));
    if let Some((_, name)) = most.filter(|(part, _)| part.change().abs() >= means.ttft.first * MIN_CHANGE) {
        let _ = write!(text, ", mostly because of {name}");
    }
    if means.cached_tokens.first + means.cached_tokens.other > 0.0 {
        let cached = pair("", means.cached_tokens);
        let _ = write!(text, ", {cached} of {} prompt tokens cached", number(means.prompt_tokens));
    }
    text
}

fn pair(name: &str, pair: Pair) -> String {
    format!("{name}{} → {}", number(pair.first), number(pair.other))
}

fn of_example(example: &Example, first: &str, other: &str) -> [String; 2] {
    let Example { request, prompt_tokens, .. } = example;
    let session = example.session.as_ref().map(|session| match example.turn {
        Some(turn) => format!(", turn {turn} of {session}"),
        None => format!(", of {session}"),
    });
    let adapter = example.adapter.as_ref().map(|adapter| format!(", adapter {adapter}"));
    let of = [session, adapter].into_iter().flatten().collect::<String>();
    [
        format!(
            "example: request {request}{of}, {prompt_tokens} prompt tokens: {}",
            of_choice(&example.first, first)
        ),
        format!("the same request: {}", of_choice(&example.other, other)),
    ]
}

fn of_choice(choice: &Choice, policy: &str) -> String {
    let Some(endpoint) = choice.endpoint else {
        return match &choice.decided_by {
            Decider::Refusal(reason) => format!("{policy} refuses it, because {reason}"),
            _ => format!("{policy} never sends it"),
        };
    };
    let cached = |tokens: usize| format!("{tokens} of its tokens cached");
    let rival = choice.rival.map(|rival| match choice.rival_cached_tokens {
        Some(tokens) => format!("endpoint-{rival} ({})", cached(tokens)),
        None => format!("endpoint-{rival}"),
    });
    let rival = rival.unwrap_or_else(|| "another endpoint".to_owned());
    let scores = choice
        .scores
        .iter()
        .filter(|score| score.score.max(score.rival_score.unwrap_or_default()) >= MIN_SCORE);
    let scores: Vec<String> =
        scores.map(|score| format!("{} {:.2}×{}", score.plugin, score.score, score.weight)).collect();
    let total = match scores.as_slice() {
        [] => format!("{:.2}", choice.total),
        scores => format!("{} = {:.2}", scores.join(" + "), choice.total),
    };
    let rival_total = choice.rival_total.unwrap_or_default();
    let why = match &choice.decided_by {
        Decider::Scorer(plugin) => {
            format!("{total}, against {rival_total:.2} for {rival}, because of `{plugin}`")
        }
        Decider::Chance if choice.scores.is_empty() => {
            format!("there is no scorer, so chance decides between it and {rival}")
        }
        Decider::Chance => format!("{total}, as for {rival}, so chance decides"),
        Decider::Picker => {
            format!("{total}, although {rival} has {rival_total:.2}: the profile's picker decides")
        }
        Decider::Filter(plugin) => format!("the filter `{plugin}` drops {rival}"),
        Decider::Absence => format!("{rival} is not there"),
        Decider::Refusal(reason) => format!("but {reason}"),
    };
    let times = choice.times.as_ref().map(of_times).unwrap_or_default();
    format!("{policy} picks endpoint-{endpoint} ({}): {why}{times}", cached(choice.cached_tokens))
}

fn of_times(times: &ExampleTimes) -> String {
    let mut text = format!("; TTFT {} ms", number(times.ttft));
    for (wait, place) in
        [(times.picker_queue, "the picker's queue"), (times.engine_queue, "the engine's queue")]
    {
        if wait > 0.0 && wait >= times.ttft * MIN_WAIT {
            let _ = write!(text, ", {} ms of it in {place}", number(wait));
        }
    }
    text
}
