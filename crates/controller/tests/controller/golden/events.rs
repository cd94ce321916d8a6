//! Comparing events: what was made and taken away, and how often; of the rest, whether it was told at all.
//!
//! How often something is told that is tried in vain depends on the back-off. The client of the reference merges similar
//! events from the tenth on, so that their messages are lost, and drops what comes after two dozen about one object: then
//! what it did tell has to be told.

use std::collections::{BTreeMap, BTreeSet};

use longboat_golden::Difference;
use serde_json::Value;

use super::difference;

/// How the client of the reference begins the message of events that it merged.
const MERGED: &str = "(combined from similar events)";
/// After so many events about an object the client of the reference drops further ones; each repetition counts.
const BURST: i64 = 25;
/// The reference issues the certificate of nearly every service twice, before and after its Service has an address; ours waits for the
/// address. The Secrets themselves are compared as children.
const CERTIFICATE: &str = "Updated v1.Secret ";
/// Reasons that are told once for each time.
const COUNTED: [&str; 2] = ["Created", "Deleted"];

/// What was told of one object for one reason.
#[derive(Default)]
struct Told {
    /// How often each message was told; what was told in several stages is listed in each with the number so far.
    messages: BTreeMap<String, i64>,
}

/// By object; then by type and reason.
type All = BTreeMap<String, BTreeMap<String, Told>>;

/// Compares what was told in all stages of a case with what is there at its end.
pub(super) fn compare(recorded: &[&String], ours: &[Value], found: &mut Vec<Difference>) {
    let (recorded, ours) = (of_recording(recorded), of_objects(ours));
    let nothing = BTreeMap::new();
    for object in recorded.keys().chain(ours.keys()).collect::<BTreeSet<_>>() {
        let (theirs, told) = (recorded.get(object).unwrap_or(&nothing), ours.get(object).unwrap_or(&nothing));
        let all = theirs.values().map(Told::count).sum::<i64>();
        for reason in theirs.keys().chain(told.keys()).collect::<BTreeSet<_>>() {
            let place = format!("events/{reason} {object}");
            let (theirs, told) = (theirs.get(reason), told.get(reason));
            if COUNTED.iter().any(|counted| reason.ends_with(counted)) {
                let lost = all >= BURST || theirs.is_some_and(|theirs| theirs.messages.contains_key(MERGED));
                each(&place, lost, theirs, told, found);
            } else if theirs.is_some() && told.is_none() || theirs.is_none() && told.is_some() && all < BURST
            {
                let say = |side: Option<&Told>| side.map_or_else(|| "never told".to_owned(), Told::say);
                found.push(difference(place, say(theirs), say(told)));
            }
        }
    }
}

/// Compares message by message; where some of the recorded ones are `lost`, ours may be more.
fn each(place: &str, lost: bool, theirs: Option<&Told>, ours: Option<&Told>, found: &mut Vec<Difference>) {
    let nothing = Told::default();
    let (theirs, ours) = (theirs.unwrap_or(&nothing), ours.unwrap_or(&nothing));
    for message in theirs.messages.keys().chain(ours.messages.keys()).collect::<BTreeSet<_>>() {
        let count = |side: &Told| side.messages.get(message).copied().unwrap_or_default();
        let (recorded, told) = (count(theirs), count(ours));
        let same = if lost { recorded <= told } else { recorded == told };
        if !same && message != MERGED {
            let say = |count: i64| {
                if count == 0 { "never told".to_owned() } else { format!("exists, told {count} times") }
            };
            found.push(difference(format!("{place}: {message}"), say(recorded), say(told)));
        }
    }
}

/// Lines such as `Normal Created count=1 LLMInferenceService/llm [LLMInferenceServiceController] Created …`.
fn of_recording(lines: &[&String]) -> All {
    let mut all = All::new();
    for line in lines {
        let words: Vec<&str> = line.splitn(6, ' ').collect();
        let [type_, reason, count, object, _, message] = words[..] else {
            panic!("an event of five words: {line}")
        };
        let count = count.trim_start_matches("count=").parse().unwrap();
        add(&mut all, object, &format!("{type_} {reason}"), count, message);
    }
    all
}

fn of_objects(events: &[Value]) -> All {
    let mut all = All::new();
    for event in events {
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let object = format!("{}/{}", text("/involvedObject/kind"), text("/involvedObject/name"));
        let count = event["count"].as_i64().unwrap_or(1);
        add(&mut all, &object, &format!("{} {}", text("/type"), text("/reason")), count, text("/message"));
    }
    all
}

fn add(all: &mut All, object: &str, reason: &str, count: i64, message: &str) {
    if message.starts_with(CERTIFICATE) {
        return;
    }
    let told = all.entry(object.to_owned()).or_default().entry(reason.to_owned()).or_default();
    let message = if message.starts_with(MERGED) { MERGED } else { message };
    let known = told.messages.entry(message.to_owned()).or_default();
    *known = count.max(*known);
}

// === impl Told ===

impl Told {
    fn count(&self) -> i64 {
        self.messages.values().sum()
    }

    fn say(&self) -> String {
        let messages: Vec<String> =
            self.messages.iter().map(|(text, count)| format!("{count}x {text}")).collect();
        messages.join("; ")
    }
}
