//! Readers of public traces (Mooncake's, Azure's and BurstGPT's) and of the picker's decisions.

use std::{io::BufRead, time::Duration};

use clap::ValueEnum;
use jiff::civil::DateTime;
use serde::Deserialize;

use crate::trace::{
    Lines, Requests, TraceError, TracePrompt, TraceRequest, blocks, object, read, time, tokens, until_error,
};

/// The tokens of a block in Mooncake's traces.
const MOONCAKE_BLOCK_TOKENS: u64 = 512;

/// The format of a trace. The command line prints the first sentence of each format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TraceFormat {
    /// JSON lines of Longboat.
    Jsonl,
    /// Mooncake's JSON lines.
    ///
    /// They have `timestamp` in milliseconds, `input_length`, `output_length` and `hash_ids`.
    Mooncake,
    /// Azure's LLM inference traces (CSV).
    ///
    /// The columns are `TIMESTAMP`, `ContextTokens` and `GeneratedTokens`.
    Azure,
    /// `BurstGPT` (CSV).
    ///
    /// The columns are `Timestamp` in seconds, `Model`, `Request tokens` and `Response tokens`.
    #[value(name = "burstgpt")]
    BurstGpt,
    /// Decisions of a picker, as `/debug/decisions` answers them.
    ///
    /// They have no prompts, so no prompt shares a beginning.
    Decisions,
}

/// An answer of `/debug/decisions`.
#[derive(Debug, Deserialize)]
struct Decisions {
    /// The newest first.
    decisions: Vec<DecisionRecord>,
}

#[derive(Debug, Deserialize)]
struct DecisionRecord {
    time: jiff::Timestamp,
    #[serde(default)]
    model: String,
    response: Option<ResponseEnd>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResponseEnd {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct MooncakeLine {
    timestamp: f64,
    input_length: u64,
    output_length: u64,
    #[serde(default)]
    hash_ids: Vec<u64>,
}

/// The columns of a table that are read. `None` for those that it does not have.
#[derive(Debug)]
struct Columns {
    time: usize,
    prompt: usize,
    output: usize,
    model: Option<usize>,
    session: Option<usize>,
}

// === impl TraceFormat ===

impl TraceFormat {
    /// Returns the requests of a trace. The first one is at 0, except in this program's own format.
    pub fn read<'a>(self, reader: impl BufRead + 'a) -> Requests<'a> {
        match self {
            Self::Jsonl => read(reader),
            Self::Mooncake => numbered(reader, |text| mooncake(text).map(|request| vec![request])),
            Self::Decisions => numbered(reader, decisions),
            Self::Azure | Self::BurstGpt => {
                let mut columns = None;
                numbered(reader, move |text| {
                    let fields: Vec<&str> =
                        text.trim_end().split(',').map(|field| field.trim().trim_matches('"')).collect();
                    let Some(columns) = &columns else {
                        columns = Some(self.columns(&fields)?);
                        return Ok(Vec::new());
                    };
                    self.row(columns, &fields).map(|request| vec![request])
                })
            }
        }
    }

    fn columns(self, names: &[&str]) -> Result<Columns, String> {
        // The first name of a file may follow a byte order mark.
        let find = |name: &str| {
            names.iter().position(|found| found.trim_start_matches('\u{feff}').eq_ignore_ascii_case(name))
        };
        let need =
            |name: &str| find(name).ok_or_else(|| format!("no column `{name}`, only {}", names.join(", ")));
        Ok(match self {
            Self::BurstGpt => Columns {
                time: need("Timestamp")?,
                prompt: need("Request tokens")?,
                output: need("Response tokens")?,
                model: find("Model"),
                session: find("Session ID"),
            },
            _ => Columns {
                time: need("TIMESTAMP")?,
                prompt: need("ContextTokens")?,
                output: need("GeneratedTokens")?,
                model: None,
                session: None,
            },
        })
    }

    fn row(self, columns: &Columns, fields: &[&str]) -> Result<(f64, TraceRequest), String> {
        let field = |index: usize| {
            fields
                .get(index)
                .copied()
                .ok_or_else(|| format!("expected at least {} columns, found {}", index + 1, fields.len()))
        };
        let number = |index: usize| -> Result<u64, String> {
            let text = field(index)?;
            // Some tables have counts as `374.0`.
            let integer = text.strip_suffix(".0").unwrap_or(text);
            integer
                .parse()
                .map_err(|_| format!("column {}: `{text}`: expected a number of tokens", index + 1))
        };
        let at = field(columns.time)?;
        let at_ms = if self == Self::BurstGpt {
            let seconds: f64 = at.parse().map_err(|_| format!("`{at}`: expected a time in seconds"))?;
            seconds * 1000.0
        } else {
            date(at)?
        };
        let prompt = TracePrompt::unshared(number(columns.prompt)?);
        let mut request = request(prompt, "output", number(columns.output)?)?;
        let model = columns.model.and_then(|index| fields.get(index)).copied();
        model.unwrap_or_default().clone_into(&mut request.model);
        let session =
            columns.session.and_then(|index| fields.get(index)).filter(|session| !session.is_empty());
        request.session = session.map(|session| (*session).to_owned());
        Ok((at_ms, request))
    }
}

/// Returns the milliseconds of a date since 1970.
fn date(text: &str) -> Result<f64, String> {
    // All times of a trace have the same offset, and only differences count.
    let local = text.find('+').map_or(text, |offset| &text[..offset]).trim_end_matches('Z');
    let wrong = |error: jiff::Error| format!("`{text}`: expected a date and a time: {error}");
    let date: DateTime = local.parse().map_err(wrong)?;
    let utc = date.to_zoned(jiff::tz::TimeZone::UTC).map_err(wrong)?;
    Ok(utc.timestamp().as_duration().as_secs_f64() * 1000.0)
}

fn mooncake(text: &str) -> Result<(f64, TraceRequest), String> {
    let line: MooncakeLine = object(text)?;
    let prompt = match line.hash_ids.as_slice() {
        [] => TracePrompt::unshared(line.input_length),
        ids => TracePrompt::Segments(blocks(ids, MOONCAKE_BLOCK_TOKENS, Some(line.input_length))?),
    };
    Ok((line.timestamp, request(prompt, "output_length", line.output_length)?))
}

/// Reads an answer of the picker. Decisions without a complete response are left out, because the length of the answer is not known.
fn decisions(text: &str) -> Result<Vec<(f64, TraceRequest)>, String> {
    let answer: Decisions = object(text)?;
    // Pickers answer the newest first, and traces begin with the oldest.
    let complete = answer.decisions.into_iter().rev().filter_map(|record| {
        let end = record.response?;
        Some((record.time, record.model, end.prompt_tokens?, end.completion_tokens?))
    });
    let read = |(at, model, prompt, output): (jiff::Timestamp, String, u64, u64)| {
        let request = request(TracePrompt::unshared(prompt), "completionTokens", output)?;
        Ok((at.as_duration().as_secs_f64() * 1000.0, TraceRequest { model, ..request }))
    };
    complete.map(read).collect()
}

/// A request whose time is set later. Its answer has a token at least, and at most what `field` may say.
fn request(prompt: TracePrompt, field: &str, output: u64) -> Result<TraceRequest, String> {
    Ok(TraceRequest::new(Duration::ZERO, prompt, tokens(field, output)?.max(1)))
}

/// Reads a trace line by line, each of which has any number of requests, and sets the times from the first request on.
fn numbered<'a>(
    reader: impl BufRead + 'a,
    mut parse: impl FnMut(&str) -> Result<Vec<(f64, TraceRequest)>, String> + 'a,
) -> Requests<'a> {
    let mut start = None;
    let mut last = f64::NEG_INFINITY;
    let parsed = Lines::new(reader).flat_map(move |line| {
        let (line, text) = match line {
            Ok(line) => line,
            Err(error) => return vec![Err(error)],
        };
        let form = |message| TraceError::Form { line, message };
        let found = match parse(&text) {
            Ok(found) => found,
            Err(message) => return vec![Err(form(message))],
        };
        let placed = found.into_iter().map(|(at_ms, request)| {
            if at_ms < last {
                return Err(TraceError::Order { line, at_ms });
            }
            last = at_ms;
            let since = at_ms - *start.get_or_insert(at_ms);
            time(since).and_then(|at| TraceRequest { at, ..request }.checked()).map_err(form)
        });
        placed.collect()
    });
    Box::new(until_error(parsed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Segment;

    fn all(format: TraceFormat, text: &str) -> Result<Vec<TraceRequest>, String> {
        format.read(text.as_bytes()).collect::<Result<_, _>>().map_err(|error| error.to_string())
    }

    fn numbers(requests: &[TraceRequest]) -> Vec<(u128, usize, usize)> {
        requests.iter().map(|r| (r.at.as_millis(), r.prompt.tokens(), r.output_tokens)).collect()
    }

    #[test]
    fn mooncakes_blocks_are_shared_between_requests() {
        let text = "{\"timestamp\": 27482, \"input_length\": 1000, \"output_length\": 52, \"hash_ids\": [46, 47]}\n\
                    {\"timestamp\": 30535, \"input_length\": 1100, \"output_length\": 26, \"hash_ids\": [46, 47, 2366]}\n";
        let requests = all(TraceFormat::Mooncake, text).unwrap();
        assert_eq!(numbers(&requests), [(0, 1000, 52), (3053, 1100, 26)]);
        assert_eq!(requests[0].prompt, TracePrompt::Segments(vec![Segment(46, 512), Segment(47, 488)]));
    }

    #[test]
    fn azures_dates_become_times_from_the_first_request_on() {
        let text = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n\
                    2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:50.9951690,396,109\r\n";
        assert_eq!(numbers(&all(TraceFormat::Azure, text).unwrap()), [(0, 374, 44), (4314, 396, 109)]);
        let offset = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,2162,5\n";
        assert_eq!(numbers(&all(TraceFormat::Azure, offset).unwrap()), [(0, 2162, 5)]);
    }

    #[test]
    fn burstgpt_has_models_and_sessions() {
        let text = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
                    5,,1,ChatGPT,472,18,490,Conversation log\n45.5,a,1,GPT-4,1087,230,1317,API log\n";
        let requests = all(TraceFormat::BurstGpt, text).unwrap();
        assert_eq!(numbers(&requests), [(0, 472, 18), (40_500, 1087, 230)]);
        assert_eq!((requests[1].model.as_str(), requests[1].session.as_deref()), ("GPT-4", Some("a")));
        assert_eq!(requests[0].session, None);
    }

    #[test]
    fn decisions_with_a_complete_response_become_requests_from_the_oldest_on() {
        let record = |second, response| {
            format!(
                "{{\"id\":\"r\",\"time\":\"2026-01-01T00:00:{second}Z\",\"model\":\"m\",\"micros\":5{response}}}"
            )
        };
        let end = |prompt, output| {
            format!(",\"response\":{{\"millis\":9,\"promptTokens\":{prompt},\"completionTokens\":{output}}}")
        };
        let records = [record("05.5", end(20, 3)), record("04", String::new()), record("03", end(10, 2))];
        let text = format!("{{\"capacity\":100,\"decisions\":[{}]}}", records.join(","));
        let requests = all(TraceFormat::Decisions, &text).unwrap();
        assert_eq!(numbers(&requests), [(0, 10, 2), (2500, 20, 3)]);
        assert_eq!(requests[0].model, "m");
        assert!(all(TraceFormat::Decisions, "{\"capacity\":1}").unwrap_err().contains("decisions"));
    }

    #[test]
    fn wrong_tables_are_named() {
        for (format, text, expected) in [
            (TraceFormat::Azure, "a,b\n1,2\n", "line 1: no column `TIMESTAMP`, only a, b"),
            (
                TraceFormat::Azure,
                "TIMESTAMP,ContextTokens,GeneratedTokens\nnow,1,1\n",
                "line 2: `now`: expected a date",
            ),
            (
                TraceFormat::BurstGpt,
                "Timestamp,Request tokens,Response tokens\n5,x,1\n",
                "line 2: column 2: `x`",
            ),
            (
                TraceFormat::BurstGpt,
                "Timestamp,Request tokens,Response tokens\n5\n",
                "line 2: expected at least 2",
            ),
            (TraceFormat::Mooncake, "{\"timestamp\":1}\n", "line 1: missing field `input_length`"),
            (
                TraceFormat::BurstGpt,
                "Timestamp,Request tokens,Response tokens\n5,1,1\n4,1,1\n",
                "line 3: at 4000 ms, before the line above",
            ),
        ] {
            let error = all(format, text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
