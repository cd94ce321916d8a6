//! `longboat why`: shows why a request went to its replica.

use std::fmt::Write as _;

use anyhow::{anyhow, bail};
use longboat_dashboard::picker;
use longboat_key::{Key, Namespace};
use longboat_plan::counted;
use owo_colors::OwoColorize;
use serde_json::Value;

use super::cluster;
use crate::{cli::WhyArgs, dashboard, printer, runtime::runtime};

/// Queries every picker, and prints its records about the request.
pub(crate) fn run(args: &WhyArgs) -> anyhow::Result<()> {
    let records = runtime()?.block_on(records(args))?;
    printer::output(&records, args.look.output, || records.iter().map(text).collect::<Vec<_>>().join("\n"))
}

async fn records(args: &WhyArgs) -> anyhow::Result<Vec<Value>> {
    let cluster = cluster::connect(&args.look.cluster).await?;
    cluster::namespace_exists(&cluster.client, args.namespace.as_ref()).await?;
    let reach = dashboard::reach(cluster.environment)?;
    let pickers = picker::all(&cluster.client, args.namespace.as_ref().map(Namespace::as_deref)).await;
    let pickers = pickers.map_err(|sentence| anyhow!("cannot list the pickers: {sentence}"))?;
    let (mut found, mut silent) = (Vec::new(), Vec::new());
    for picker in &pickers {
        match picker.decisions(&cluster.client, &reach, Some(&args.id)).await {
            Ok(records) => found.extend(records.unwrap_or_default()),
            Err(sentence) => silent.push(format!("{}: {sentence}", Key::of(&picker.pod))),
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    if pickers.is_empty() {
        bail!("no picker found: no service has one, no gateway picks, or they are in another namespace");
    }
    if silent.len() == pickers.len() {
        bail!("no picker reports its decisions\n  {}", silent.join("\n  "));
    }
    for sentence in &silent {
        printer::labelled("not asked:", sentence);
    }
    bail!(
        "no picker has a decision for request `{}`: the request is too old, or no response had this \
         `x-request-id`",
        args.id
    )
}

/// Formats a decision for a person.
fn text(record: &Value) -> String {
    let word = |field: &str| record[field].as_str().unwrap_or_default();
    let mut text =
        format!("{} for model {} at {}\n", word("id").bold(), word("model").escape_debug(), word("time"));
    let decided = format!("in {} µs, from {} endpoints", record["micros"], record["candidates"]);
    let destination: Vec<&str> =
        record["destination"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let _ = match record["error"].as_str() {
        Some(error) => writeln!(text, "refused, decided {decided}: {error}"),
        None => writeln!(text, "sent to {}, decided {decided}", destination.join(", ").cyan()),
    };
    if let Some(prefix) = record["prefix"].as_object() {
        // Pickers of earlier versions do not say how many blocks are shared.
        let shared = prefix.get("shared").and_then(Value::as_u64).unwrap_or_default();
        let shared = match usize::try_from(shared).unwrap_or_default() {
            0 => String::new(),
            count => {
                format!("; many prompts share {}, which the prefix score leaves out", counted(count, "block"))
            }
        };
        let _ = writeln!(
            text,
            "cached at this endpoint: {} of {} blocks of the prompt{shared}",
            prefix["matched"], prefix["total"]
        );
    }
    for profile in record["profiles"].as_array().into_iter().flatten() {
        text.push_str(&of_profile(profile));
    }
    if let Some(response) = record["response"].as_object() {
        let status = response.get("status").map(|status| format!("status {status}, "));
        let first = response.get("firstByteMillis").map(|millis| format!("first byte after {millis} ms, "));
        let end = match (response.get("cancelled"), &status) {
            (Some(_), _) => "cancelled",
            (None, Some(_)) => "ended",
            (None, None) => "complete",
        };
        let begun = status.into_iter().chain(first).collect::<String>();
        let _ = write!(text, "response: {begun}{end} after {} ms", response["millis"]);
        if let Some(generated) = response.get("completionTokens") {
            let _ = write!(
                text,
                "; {} prompt tokens ({} cached), {generated} generated",
                response["promptTokens"], response["cachedTokens"]
            );
        }
        text.push('\n');
    }
    text
}

fn of_profile(profile: &Value) -> String {
    let list = |field: &str| profile[field].as_array().cloned().unwrap_or_default();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut text = format!("profile {}\n", word(&profile["name"]).bold());
    for filter in list("filters") {
        let dropped: Vec<String> = filter["dropped"].as_array().into_iter().flatten().map(word).collect();
        let dropped =
            if dropped.is_empty() { String::new() } else { format!("; dropped {}", dropped.join(", ")) };
        let _ = writeln!(text, "  {} left {}{dropped}", word(&filter["plugin"]), filter["left"]);
    }
    let mut head = vec![String::new(), "ENDPOINT".to_owned()];
    head.extend(
        list("scorers")
            .iter()
            .map(|scorer| format!("{} × {}", word(&scorer["plugin"]), number(&scorer["weight"]))),
    );
    head.extend(["TOTAL", "QUEUE", "RUNNING", "KV"].map(ToOwned::to_owned));
    let mut rows = vec![head];
    for endpoint in list("endpoints") {
        let picked = if endpoint["picked"] == true { "→" } else { "" };
        let mut row = vec![picked.to_owned(), word(&endpoint["endpoint"])];
        row.extend(endpoint["scores"].as_array().into_iter().flatten().map(number));
        row.extend(["total", "waiting", "running", "kvUsage"].map(|field| number(&endpoint[field])));
        rows.push(row);
    }
    for line in printer::aligned(&rows, 2, "  ") {
        let _ = writeln!(text, "  {line}");
    }
    text
}

/// Formats a number with the digits that matter in a comparison.
fn number(value: &Value) -> String {
    match value.as_f64() {
        None => "–".to_owned(),
        Some(number) => {
            let text = format!("{number:.3}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_decision_reads_as_a_table() {
        let endpoint = |name: &str, picked: bool, scores: [f64; 2], total: f64| {
            json!({"endpoint": name, "address": "127.0.0.1:1", "picked": picked, "total": total, "scores": scores,
                "waiting": 0.0, "running": 1.0, "kvUsage": 0.25})
        };
        let record = json!({
            "id": "r1", "time": "2026-01-01T00:00:00Z", "model": "m\n", "micros": 80, "candidates": 3,
            "destination": ["127.0.0.1:1"], "prefix": {"matched": 3, "shared": 1, "total": 4, "ratio": 0.75},
            "profiles": [{
                "name": "default", "primary": true, "scored": 2,
                "filters": [{"plugin": "decode-filter", "left": 2, "dropped": ["ns/prefill"]}],
                "scorers": [{"plugin": "queue-scorer", "weight": 2.0}, {"plugin": "prefix", "weight": 0.5}],
                "endpoints": [
                    endpoint("ns/a", true, [1.0, 0.75], 2.375), endpoint("ns/longer", false, [0.5, 0.0], 1.0),
                ],
            }],
            "response": {"firstByteMillis": 20, "millis": 300, "promptTokens": 12, "cachedTokens": 8, "completionTokens": 30},
        });
        let text = anstream::adapter::strip_str(&text(&record)).to_string();
        let expected = "\
r1 for model m\\n at 2026-01-01T00:00:00Z
sent to 127.0.0.1:1, decided in 80 µs, from 3 endpoints
cached at this endpoint: 3 of 4 blocks of the prompt; many prompts share 1 block, which the prefix score leaves out
profile default
  decode-filter left 2; dropped ns/prefill
     ENDPOINT   queue-scorer × 2  prefix × 0.5  TOTAL  QUEUE  RUNNING    KV
  →  ns/a                      1          0.75  2.375      0        1  0.25
     ns/longer               0.5             0      1      0        1  0.25
response: first byte after 20 ms, complete after 300 ms; 12 prompt tokens (8 cached), 30 generated
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_response_that_was_cut_off_or_refused_is_not_called_complete() {
        let says = |response: Value| {
            let text =
                text(&json!({"micros": 8, "candidates": 1, "destination": ["e"], "response": response}));
            text.lines().last().unwrap_or_default().to_owned()
        };
        assert_eq!(says(json!({"cancelled": true, "millis": 30})), "response: cancelled after 30 ms");
        let streamed = json!({"cancelled": true, "firstByteMillis": 9, "millis": 30});
        assert_eq!(says(streamed), "response: first byte after 9 ms, cancelled after 30 ms");
        let refused = json!({"status": 404, "firstByteMillis": 3, "millis": 4});
        assert_eq!(says(refused), "response: status 404, first byte after 3 ms, ended after 4 ms");
    }

    #[test]
    fn a_refusal_says_its_cause() {
        let record = json!({
            "id": "r1", "time": "t", "model": "m", "micros": 8, "candidates": 0, "error": "no endpoints", "profiles": [],
        });
        let text = anstream::adapter::strip_str(&text(&record)).to_string();
        assert_eq!(text, "r1 for model m at t\nrefused, decided in 8 µs, from 0 endpoints: no endpoints\n");
    }
}
