//! Made-up traffic. The same settings and seed make the same requests.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    time::Duration,
};

use clap::ValueEnum;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use crate::trace::{MAX_TOKENS, Requests, Segment, TracePrompt, TraceRequest, timely};

/// The most tokens of a prompt or an answer, on average. Lengths have an exponential distribution, so nearly none is longer than
/// [`MAX_LENGTH`].
pub const MAX_MEAN_TOKENS: u64 = MAX_TOKENS / 64;
/// The most tokens of a part of a prompt or of an answer.
pub(crate) const MAX_LENGTH: u64 = MAX_TOKENS / 4;

/// What the traffic is like. The command line prints the first sentence of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Independent requests at random times.
    Poisson,
    /// Independent requests, many in a fifth of the time.
    ///
    /// Then they come at four times the rate, and otherwise at a quarter of it.
    Bursts,
    /// Conversations with one system prompt.
    ///
    /// Each turn repeats what was history before.
    Sessions,
    /// Agents with long prompts of tools, and many short turns.
    ///
    /// There are four prompts. The turns come in quick succession.
    Agents,
    /// Long documents with a few questions each.
    Documents,
}

/// How much traffic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Traffic {
    /// What it is like.
    pub kind: Kind,
    /// Requests a second, on average.
    pub rate: f64,
    /// The number of requests.
    pub requests: u64,
    /// Tokens that each request adds to its prompt, on average. `None`: what is usual for the kind.
    pub prompt_tokens: Option<u64>,
    /// Tokens of an answer, on average. `None`: what is usual for the kind.
    pub output_tokens: Option<u64>,
    /// The seed.
    pub seed: u64,
}

/// How conversations of a kind go.
#[derive(Debug, Clone, Copy)]
struct Shape {
    /// How many different first parts there are. 0: each conversation has its own.
    systems: u64,
    /// Tokens of the first part.
    system_tokens: u64,
    turns: f64,
    prompt_tokens: u64,
    output_tokens: u64,
    /// Seconds from the start of a turn to the start of the next one.
    pause: f64,
}

impl Kind {
    fn shape(self) -> Shape {
        let single = Shape {
            systems: 1,
            system_tokens: 0,
            turns: 1.0,
            prompt_tokens: 512,
            output_tokens: 128,
            pause: 0.0,
        };
        match self {
            Self::Poisson | Self::Bursts => single,
            Self::Sessions => {
                Shape { system_tokens: 512, turns: 6.0, prompt_tokens: 96, pause: 12.0, ..single }
            }
            Self::Agents => Shape {
                systems: 4,
                system_tokens: 4096,
                turns: 20.0,
                prompt_tokens: 256,
                output_tokens: 48,
                pause: 2.0,
            },
            Self::Documents => Shape {
                systems: 0,
                system_tokens: 24_000,
                turns: 3.0,
                prompt_tokens: 64,
                output_tokens: 256,
                pause: 20.0,
            },
        }
    }
}

/// A conversation that goes on.
#[derive(Debug)]
struct Conversation {
    number: u64,
    history: Vec<Segment>,
    /// The turns that are left.
    turns: u64,
}

/// The generator. Its memory depends on the conversations that go on at the same time.
struct Generator {
    traffic: Traffic,
    shape: Shape,
    random: StdRng,
    /// Nanoseconds of the next new conversation.
    next: u64,
    /// Conversations by the time of their next turn.
    due: BinaryHeap<Reverse<(u64, u64)>>,
    open: HashMap<u64, Conversation>,
    conversations: u64,
    segments: u64,
    left: u64,
}

/// The length of a period of bursts, in seconds, and of the burst in it.
const PERIOD_SECONDS: f64 = 50.0;
const BURST_SECONDS: f64 = 10.0;
const NANOS: f64 = 1e9;
/// Segments of conversations begin here; the numbers below are system prompts.
const FIRST_SEGMENT: u64 = 1 << 16;

/// Returns the requests of the traffic, in the order of their times.
pub fn requests(traffic: Traffic) -> Requests<'static> {
    let shape = traffic.kind.shape();
    let generator = Generator {
        shape: Shape {
            prompt_tokens: traffic.prompt_tokens.unwrap_or(shape.prompt_tokens),
            output_tokens: traffic.output_tokens.unwrap_or(shape.output_tokens),
            ..shape
        },
        random: StdRng::seed_from_u64(traffic.seed),
        next: 0,
        due: BinaryHeap::new(),
        open: HashMap::new(),
        conversations: 0,
        segments: FIRST_SEGMENT,
        left: traffic.requests,
        traffic,
    };
    Box::new(timely(generator))
}

impl Generator {
    /// Returns a random number with an exponential distribution.
    fn exponential(&mut self, mean: f64) -> f64 {
        let chance: f64 = self.random.random();
        -(1.0 - chance).ln() * mean
    }

    /// Returns a length of at least 1.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a length"
    )]
    fn length(&mut self, mean: u64) -> u64 {
        (self.exponential(mean as f64).ceil() as u64).clamp(1, MAX_LENGTH)
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast saturates"
    )]
    fn arrival(&mut self) {
        let seconds = self.next as f64 / NANOS;
        let factor = match self.traffic.kind {
            Kind::Bursts if seconds % PERIOD_SECONDS < BURST_SECONDS => 4.0,
            Kind::Bursts => 0.25,
            _ => 1.0,
        };
        let rate = self.traffic.rate * factor / self.shape.turns;
        let mut gap = self.exponential(1.0 / rate);
        if self.traffic.kind == Kind::Bursts {
            // A gap does not reach into the next part of the period, whose rate is another one.
            let place = seconds % PERIOD_SECONDS;
            let end = if place < BURST_SECONDS { BURST_SECONDS } else { PERIOD_SECONDS };
            if place + gap > end {
                // An exponential gap has no memory, so another one may begin there. 4.25 less one factor is the other.
                gap = end - place + self.exponential(1.0 / rate) * factor / (4.25 - factor);
            }
        }
        self.next = self.next.saturating_add((gap * NANOS) as u64);
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of turns")]
    fn begin(&mut self) {
        let number = self.conversations;
        self.conversations += 1;
        let system = match self.shape.systems {
            0 => self.segment(self.shape.system_tokens),
            systems => Segment(self.random.random_range(0..systems), self.shape.system_tokens),
        };
        let turns = if self.shape.turns > 1.0 {
            (self.exponential(self.shape.turns - 1.0).round() as u64).min(200) + 1
        } else {
            1
        };
        let history = if system.1 > 0 { vec![system] } else { Vec::new() };
        self.open.insert(number, Conversation { number, history, turns });
        self.due.push(Reverse((self.next, number)));
        self.arrival();
    }

    fn segment(&mut self, tokens: u64) -> Segment {
        self.segments += 1;
        Segment(self.segments, tokens)
    }
}

impl Iterator for Generator {
    type Item = TraceRequest;

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
    fn next(&mut self) -> Option<TraceRequest> {
        self.left = self.left.checked_sub(1)?;
        // Not at the same time: where times end, `next` stays there, and conversations would begin for ever.
        while self.due.peek().is_none_or(|Reverse((at, _))| self.next < *at) {
            self.begin();
        }
        let Reverse((at, number)) = self.due.pop()?;
        let mut conversation = self.open.remove(&number)?;
        let (prompt_tokens, output_tokens) =
            (self.length(self.shape.prompt_tokens), self.length(self.shape.output_tokens));
        let question = self.segment(prompt_tokens);
        conversation.history.push(question);
        let prompt = TracePrompt::Segments(conversation.history.clone());
        let output = usize::try_from(output_tokens).unwrap_or(1);
        let mut request = TraceRequest::new(Duration::from_nanos(at), prompt, output);
        if self.shape.turns > 1.0 {
            request.session = Some(format!("session-{}", conversation.number));
        }
        conversation.turns -= 1;
        let total: u64 = conversation.history.iter().map(|Segment(_, tokens)| tokens).sum();
        // An answer and a question have a quarter of a prompt's limit each at most, so the next turn keeps to it.
        if conversation.turns > 0 && total < MAX_TOKENS / 16 {
            let answer = self.segment(output_tokens);
            conversation.history.push(answer);
            let pause = (self.exponential(self.shape.pause) * NANOS) as u64;
            self.due.push(Reverse((at.saturating_add(pause), number)));
            self.open.insert(number, conversation);
        }
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(kind: Kind) -> Traffic {
        Traffic { kind, rate: 10.0, requests: 4000, prompt_tokens: None, output_tokens: None, seed: 7 }
    }

    fn all(traffic: Traffic) -> Vec<TraceRequest> {
        requests(traffic).map(Result::unwrap).collect()
    }

    #[test]
    fn the_same_seed_makes_the_same_requests_in_order() {
        for kind in [Kind::Poisson, Kind::Bursts, Kind::Sessions, Kind::Agents, Kind::Documents] {
            let requests = all(traffic(kind));
            assert_eq!(requests.len(), 4000);
            assert_eq!(requests, all(traffic(kind)), "{kind:?}");
            assert_ne!(requests, all(Traffic { seed: 8, ..traffic(kind) }), "{kind:?}");
            assert!(requests.is_sorted_by_key(|request| request.at), "{kind:?}");
        }
    }

    #[test]
    fn generated_traffic_has_about_the_requested_rate() {
        for kind in [Kind::Poisson, Kind::Bursts, Kind::Sessions, Kind::Agents] {
            let requests = all(Traffic { requests: 20_000, ..traffic(kind) });
            let rate = 20_000.0 / requests.last().unwrap().at.as_secs_f64();
            assert!((8.0..12.0).contains(&rate), "{kind:?}: {rate}");
        }
    }

    #[test]
    fn traffic_ends_with_the_longest_time_of_a_trace() {
        let slow = |requests| Traffic { rate: 1e-6, requests, ..traffic(Kind::Poisson) };
        assert_eq!(all(slow(100)).len(), 100);
        let error = requests(slow(1000)).find_map(Result::err).unwrap().to_string();
        assert!(error.starts_with("request ") && error.ends_with("expected 0 to 320000000000"), "{error}");
        let endless = Traffic { rate: 1e-300, ..slow(1000) };
        assert_eq!(requests(endless).filter(Result::is_err).count(), 1);
    }

    #[test]
    fn turns_repeat_the_conversation_before_them() {
        let requests = all(traffic(Kind::Sessions));
        let of = |session: &str| -> Vec<Vec<Segment>> {
            let own = requests.iter().filter(|request| request.session.as_deref() == Some(session));
            own.map(|request| match &request.prompt {
                TracePrompt::Segments(segments) => segments.clone(),
                other => panic!("{other:?}"),
            })
            .collect()
        };
        let turns = (0..50).map(|number| of(&format!("session-{number}"))).find(|turns| turns.len() > 2);
        let turns = turns.unwrap();
        assert!(turns.windows(2).all(|pair| pair[1].starts_with(&pair[0])));
        assert!(turns.iter().all(|turn| turn[0] == Segment(0, 512)));
    }
}
