//! Compares events: what was created and deleted, and how often. For other events, compares only whether they were recorded.
//!
//! How often a failing attempt is recorded depends on the back-off. The reference's client merges similar events from the
//! tenth on, so that their messages are lost, and drops events after two dozen about one object. Then only the events that it
//! did record are required.

use std::collections::{BTreeMap, BTreeSet};

use longboat_golden::Difference;
use serde_json::Value;

use super::difference;

/// The prefix of the message of events that the reference's client has merged.
const MERGED: &str = "(combined from similar events)";
/// After this many events about an object, the reference's client drops further ones. Each repetition counts.
const BURST: i64 = 25;
/// The reference issues the certificate of nearly every service twice: before and after its Service has an address. Ours
/// waits for the address. The Secrets themselves are compared as children.
const CERTIFICATE: &str = "Updated v1.Secret ";
/// Reasons whose events are recorded once per occurrence.
const COUNTED: [&str; 2] = ["Created", "Deleted"];

/// The events about one object with one reason.
#[derive(Default)]
struct Told {
    /// The count of each message. If an event occurs in several stages, the recording lists it in each with the count so far.
    messages: BTreeMap<String, i64>,
}

/// By object, then by type and reason.
type All = BTreeMap<String, BTreeMap<String, Told>>;

/// Compares the events of all stages of a case with those at its end.
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

/// Compares each message. If some of the recorded ones are `lost`, there may be more of ours.
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

/// Parses lines such as `Normal Created count=1 LLMInferenceService/llm [LLMInferenceServiceController] Created …`.
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
