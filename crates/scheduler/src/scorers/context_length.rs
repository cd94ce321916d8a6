//! `context-length-aware`: prefers endpoints whose labelled range of prompt lengths fits the request, and narrow ranges over
//! wide ones.

use crate::prelude::*;

parameters! {
    #[derive(Clone)]
    struct ContextLength {
        label: String = "llm-d.ai/context-length-range".to_owned(),
        enable_filtering: bool,
    }
}

pub(crate) fn build(parameters: &Parameters<'_>, _: &mut Builder) -> Result<Plugin, ConfigError> {
    let plugin: ContextLength = parameters.read()?;
    parameters.require(!plugin.label.is_empty(), "label", "it is required")?;
    if plugin.enable_filtering {
        return Ok(Plugin { scorer: Plugin::scorer(plugin.clone()).scorer, ..Plugin::filter(plugin) });
    }
    Ok(Plugin::scorer(plugin))
}

/// The range in an endpoint's label.
enum Range {
    Unlabelled,
    Unreadable,
    Tokens(f64, f64),
}

impl ContextLength {
    fn range(&self, context: &Context<'_>, candidate: Candidate) -> Range {
        let Some(text) = context.endpoint(candidate).labels.get(&self.label) else {
            return Range::Unlabelled;
        };
        let bounds = text
            .split_once('-')
            .and_then(|(least, most)| Some((least.trim().parse().ok()?, most.trim().parse().ok()?)));
        match bounds {
            Some((least, most)) if (0.0..=most).contains(&least) => Range::Tokens(least, most),
            _ => Range::Unreadable,
        }
    }
}

impl Scorer for ContextLength {
    fn score(&self, context: &Context<'_>, candidates: &[Candidate], scores: &mut [f64]) {
        let length = float(context.request.tokens() as u64);
        for (score, &candidate) in scores.iter_mut().zip(candidates) {
            *score = match self.range(context, candidate) {
                Range::Unlabelled => 0.5,
                Range::Unreadable => 0.0,
                Range::Tokens(least, most) => fit(length, least, most),
            };
        }
    }
}

fn fit(length: f64, least: f64, most: f64) -> f64 {
    if length < least {
        return outside(least - length);
    }
    if length > most {
        return outside(length - most);
    }
    let width = most - least;
    if width <= 0.0 {
        return 1.0;
    }
    // The constants are llm-d's. A range that fits is never worse than one that does not: 0.3 is where `outside` ends.
    let narrow = 1.0 / (1.0 + width / 10_000.0);
    let headroom = (most - length) / width;
    0.3 + 0.7 * (0.7 * narrow + 0.3 * headroom)
}

fn outside(distance: f64) -> f64 {
    0.3 / (1.0 + distance / 1000.0)
}

impl Filter for ContextLength {
    fn filter(&self, context: &Context<'_>, candidates: &mut Vec<Candidate>) {
        let length = float(context.request.tokens() as u64);
        candidates.retain(|&candidate| match self.range(context, candidate) {
            Range::Unlabelled => true,
            Range::Unreadable => false,
            Range::Tokens(least, most) => (least..=most).contains(&length),
        });
    }
}
