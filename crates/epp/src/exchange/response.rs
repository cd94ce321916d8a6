//! Passes a response on chunk by chunk, and measures it.

use std::{mem, time::Duration};

use bytes::Bytes;
use longboat_extproc::{Action, Header, HeaderChanges, Headers, Metadata, Outbox, Reply, names};
use longboat_scheduler::{Report, Tokens};
use tokio::time::Instant;

use super::{Exchange, Phase, Picked, Responding, UsageScan, Watched, headers};
use crate::metrics::{Finished, Work};

impl Exchange {
    pub(super) fn response_headers(
        &mut self,
        headers: &Headers,
        end_of_stream: bool,
        metadata: Option<&Metadata>,
        out: &mut Outbox,
    ) {
        if matches!(self.phase, Phase::Refused) {
            return;
        }
        let extra = match &mut self.picked {
            None => &[][..],
            Some(picked) => {
                let status: u16 =
                    headers.get(":status").and_then(|status| status.parse().ok()).unwrap_or(200);
                if status >= 400 {
                    self.core.metrics.failed(&picked.labels, "ModelServerError");
                    if let Some(watched) = &mut picked.watched {
                        watched.failed();
                    }
                }
                picked.stream |=
                    headers.get("content-type").is_some_and(|kind| kind.contains("text/event-stream"));
                &picked.response_headers
            }
        };
        let mut changes = headers::response_changes(headers, extra);
        if self.core.scheduler.tells_served() {
            changes.set.push(Header::new(headers::SERVED, served(metadata)));
        }
        out.push(Action::ResponseHeaders(changes));
        if end_of_stream {
            self.finish();
        }
    }

    pub(super) fn response_body(&mut self, body: Bytes, end_of_stream: bool, out: &mut Outbox) {
        if matches!(self.phase, Phase::Refused) {
            return;
        }
        let Some(picked) = &mut self.picked else {
            out.push(Action::ResponseBody { body, end_of_stream });
            return;
        };
        if picked.first_byte.is_none() && !body.is_empty() {
            picked.first_byte = Some(picked.since.elapsed());
            self.core.state.write().first_chunk(&mut picked.reservation);
        }
        if !body.is_empty()
            && let (Some(watched), Some(settings)) = (&mut picked.watched, self.core.scheduler.latency())
        {
            watched.chunk(settings, picked.stream);
        }
        if picked.stream && !body.is_empty() {
            match &mut picked.gaps {
                Some(gaps) => gaps.next(),
                None => picked.gaps = Some(self.core.metrics.stream.began(&picked.labels)),
            }
        }
        picked.response_bytes += body.len();
        picked.usage.push(&body);
        // The reports for the proxy are sent with the end of the response.
        let reports = self.core.scheduler.reports();
        let metadata = if end_of_stream { reported(reports, &picked.usage) } else { Metadata::default() };
        match &picked.rewrite {
            None => out.push(Reply { action: Action::ResponseBody { body, end_of_stream }, metadata }),
            Some(rewrite) if picked.stream => {
                let body = rewrite.response(body);
                out.push(Reply { action: Action::ResponseBody { body, end_of_stream }, metadata });
            }
            Some(rewrite) => {
                let kept = self.core.bodies.keep(body.clone());
                // If there is no memory to hold more, the response goes on in pieces.
                let whole = kept.is_none() || end_of_stream;
                picked.held.push(kept.unwrap_or(body));
                if whole {
                    let whole = Bytes::from(mem::take(&mut picked.held).concat());
                    let action = Action::ResponseBody { body: rewrite.response(whole), end_of_stream };
                    out.push(Reply { action, metadata });
                }
            }
        }
        if end_of_stream {
            self.finish();
        }
    }

    pub(super) fn response_trailers(&mut self, out: &mut Outbox) {
        if matches!(self.phase, Phase::Refused) {
            return;
        }
        if let Some(picked) = &mut self.picked
            && let Some(rewrite) = &picked.rewrite
            && !picked.held.is_empty()
        {
            let whole = Bytes::from(mem::take(&mut picked.held).concat());
            out.push(Action::ResponseBody { body: rewrite.response(whole), end_of_stream: false });
        }
        let reports = self.core.scheduler.reports();
        let metadata = self.picked.as_ref().map(|picked| reported(reports, &picked.usage));
        let action = Action::ResponseTrailers(HeaderChanges::default());
        out.push(Reply { action, metadata: metadata.unwrap_or_default() });
        self.finish();
    }

    /// Records that a part of the response has arrived.
    pub(super) fn part_begins(&mut self) {
        let Some(picked) = &mut self.picked else { return };
        let now = Instant::now();
        let begins = Responding { since: now, part: now, spent: Duration::ZERO };
        picked.response.get_or_insert(begins).part = now;
    }

    /// Records that the part is done and is not the last.
    pub(super) fn part_ends(&mut self) {
        if let Some(response) = self.picked.as_mut().and_then(|picked| picked.response.as_mut()) {
            response.spent += response.part.elapsed();
        }
    }

    /// Records that the response is complete.
    fn finish(&mut self) {
        if let Some(mut picked) = self.picked.take() {
            if let Some(Responding { since, part, spent }) = picked.response {
                // In a stream, the time between parts belongs to the model server, not to the picker.
                let took = if picked.stream { spent + part.elapsed() } else { since.elapsed() };
                self.core.metrics.responded(took);
            }
            if let Some(watched) = picked.watched.take() {
                self.learn(watched, &picked);
            }
            self.release(picked);
        }
        self.phase = Phase::Passing;
    }

    /// Reports a complete response to the latency predictor. A response that was cut off is not reported.
    fn learn(&self, watched: Watched, picked: &Picked) {
        let Some(settings) = self.core.scheduler.latency() else { return };
        let members = self.core.pool.members();
        let member = members.iter().find(|member| member.endpoint.slot == picked.slot);
        let now = member.map(|member| member.snapshot(Instant::now(), None).metrics);
        let metrics = &self.core.metrics.latency;
        watched.complete(settings, (metrics, &picked.labels), picked.usage.usage(), now.as_deref());
    }

    pub(super) fn release(&self, picked: Picked) {
        let metrics = &self.core.metrics;
        metrics.running(&picked.labels, -1);
        let began = Instant::now();
        let usage = picked.usage.usage();
        metrics.plugins.took(Work::ReadResponse(picked.parser), began.elapsed());
        if let (Some(flow), Some(usage)) = (&picked.flow, usage) {
            self.core.admission.served(&self.core, flow, (usage.input, usage.output));
        }
        let end = Finished {
            duration: picked.since.elapsed(),
            first_byte: picked.first_byte,
            response_bytes: picked.response_bytes,
            stream: picked.stream,
            usage,
        };
        if let Some(record) = &picked.record {
            record.ended(&end);
        }
        if let Some(request) = &picked.in_flight {
            self.core.admission.ended(&self.core, request);
        }
        metrics.finished(&picked.labels, end);
        self.core.state.write().release(picked.reservation);
    }
}

/// Returns the dynamic metadata for the proxy about a complete response.
fn reported(reports: &[Report], usage: &UsageScan) -> Metadata {
    let mut metadata = Metadata::default();
    if reports.is_empty() {
        return metadata;
    }
    let usage = usage.usage().unwrap_or_default();
    let tokens = Tokens { input: usage.input, output: usage.output, cached: usage.cached };
    for report in reports {
        if let Some(number) = report.of(tokens) {
            metadata.insert(&report.namespace, &report.name, number.into());
        }
    }
    metadata
}

/// Returns the endpoint that served, as the proxy reports it. Without a report, returns the reference's message.
fn served(metadata: Option<&Metadata>) -> String {
    let Some(metadata) = metadata.filter(|metadata| metadata.0.contains_key(names::LB_NAMESPACE)) else {
        return "fail: missing envoy lb metadata".to_owned();
    };
    let endpoint =
        metadata.get(names::LB_NAMESPACE, names::DESTINATION_SERVED).and_then(|value| value.as_str());
    endpoint.unwrap_or("fail: missing destination endpoint served metadata").to_owned()
}
