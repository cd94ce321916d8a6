//! Passes a response on chunk by chunk, and measures it.

use std::{mem, time::Duration};

use bytes::Bytes;
use longboat_extproc::{Action, Header, HeaderChanges, Headers, Metadata, Outbox, Reply, names};
use longboat_scheduler::Report;
use tokio::time::Instant;

use super::{Exchange, LatencyMeasurement, RequestPhase, ResponseTimes, RoutedRequest, UsageScan, headers};
use crate::metrics::{RequestSummary, Work};

impl Exchange {
    pub(super) fn response_headers(
        &mut self,
        headers: &Headers,
        end_of_stream: bool,
        metadata: Option<&Metadata>,
        out: &mut Outbox,
    ) {
        let status: u16 = headers.get(":status").and_then(|status| status.parse().ok()).unwrap_or(200);
        self.spans.respond(status);
        let extra = match &mut self.phase {
            RequestPhase::Response(routed) => {
                routed.status = Some(status);
                if status < 300 {
                    self.core.metrics.serve(&routed.model);
                }
                if status >= 400 {
                    self.core.metrics.failed(&routed.labels, error_code(status));
                    routed.trace = None;
                    if let Some(measurement) = &mut routed.measurement {
                        measurement.failed();
                    }
                }
                let is_events =
                    headers.get("content-type").is_some_and(|kind| kind.contains("text/event-stream"));
                routed.stream |= is_events;
                routed.has_events = is_events && status < 400;
                &routed.response_headers[..]
            }
            _ => &[],
        };
        let mut changes = headers::response_changes(headers, extra);
        if self.core.scheduler.names_served_endpoint() {
            changes.set.push(Header::new(headers::SERVED, served(metadata)));
        }
        out.push(Action::ResponseHeaders(changes));
        if end_of_stream {
            self.finish();
        }
    }

    pub(super) fn response_body(&mut self, body: Bytes, end_of_stream: bool, out: &mut Outbox) {
        let RequestPhase::Response(routed) = &mut self.phase else {
            out.push(Action::ResponseBody { body, end_of_stream });
            return;
        };
        if routed.first_byte.is_none() && !body.is_empty() {
            routed.first_byte = Some(routed.since.elapsed());
            let token = routed.has_events.then(|| self.core.now_ms());
            self.core.state.write().first_chunk(&mut routed.reservation, token);
        }
        if !body.is_empty()
            && let (Some(measurement), Some(settings)) =
                (&mut routed.measurement, self.core.scheduler.latency())
        {
            measurement.chunk(settings, routed.stream);
        }
        if routed.stream && !body.is_empty() {
            if let Some(trace) = &mut routed.trace {
                trace.chunk(&body);
            }
            match &mut routed.gaps {
                Some(gaps) => gaps.next(),
                None => routed.gaps = Some(self.core.metrics.chunk_gaps(&routed.labels)),
            }
        }
        routed.response_bytes += body.len();
        routed.usage.push(&body);
        // The reports for the proxy are sent with the end of the response.
        let reports = self.core.scheduler.reports();
        let metadata = if end_of_stream { reported(reports, &routed.usage) } else { Metadata::default() };
        match &routed.rewrite {
            None => out.push(Reply { action: Action::ResponseBody { body, end_of_stream }, metadata }),
            Some(rewrite) if routed.stream => {
                let body = rewrite.response(body);
                out.push(Reply { action: Action::ResponseBody { body, end_of_stream }, metadata });
            }
            Some(rewrite) => {
                let kept = self.core.bodies.keep(body.clone());
                // If there is no memory to hold more, the response goes on in pieces.
                let whole = kept.is_none() || end_of_stream;
                routed.held.push(kept.unwrap_or(body));
                if whole {
                    let whole = Bytes::from(mem::take(&mut routed.held).concat());
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
        let reports = self.core.scheduler.reports();
        let mut metadata = Metadata::default();
        if let RequestPhase::Response(routed) = &mut self.phase {
            metadata = reported(reports, &routed.usage);
            if let Some(rewrite) = &routed.rewrite
                && !routed.held.is_empty()
            {
                let whole = Bytes::from(mem::take(&mut routed.held).concat());
                out.push(Action::ResponseBody { body: rewrite.response(whole), end_of_stream: false });
            }
        }
        let action = Action::ResponseTrailers(HeaderChanges::default());
        out.push(Reply { action, metadata });
        self.finish();
    }

    /// Records that a part of the response has arrived.
    pub(super) fn part_begins(&mut self) {
        let RequestPhase::Response(routed) = &mut self.phase else { return };
        let now = Instant::now();
        let begins = ResponseTimes { since: now, part: now, spent: Duration::ZERO };
        routed.response.get_or_insert(begins).part = now;
    }

    /// Records that the part is done and is not the last.
    pub(super) fn part_ends(&mut self) {
        if let RequestPhase::Response(routed) = &mut self.phase
            && let Some(response) = &mut routed.response
        {
            response.spent += response.part.elapsed();
        }
    }

    /// Records that the response is complete.
    fn finish(&mut self) {
        let RequestPhase::Response(mut routed) = mem::replace(&mut self.phase, RequestPhase::Passing) else {
            return;
        };
        if let Some(ResponseTimes { since, part, spent }) = routed.response {
            // In a stream, the time between parts belongs to the model server, not to the picker.
            let took = if routed.stream { spent + part.elapsed() } else { since.elapsed() };
            self.core.metrics.responded(took);
        }
        if let Some(measurement) = routed.measurement.take() {
            self.learn(measurement, &routed);
        }
        self.release(*routed, true);
    }

    /// Reports a complete response to the latency predictor. A response that was cut off is not reported.
    fn learn(&self, measurement: LatencyMeasurement, routed: &RoutedRequest) {
        let Some(settings) = self.core.scheduler.latency() else { return };
        let member = self.core.pool.member(routed.slot);
        let now = member.map(|member| member.snapshot(Instant::now(), None).metrics);
        let metrics = &self.core.metrics.latency;
        measurement.complete(settings, (metrics, &routed.labels), routed.usage.usage(), now.as_deref());
    }

    pub(super) fn release(&self, mut routed: RoutedRequest, is_complete: bool) {
        let metrics = &self.core.metrics;
        metrics.running(&routed.labels, -1);
        let began = Instant::now();
        let usage = routed.usage.usage();
        metrics.plugins.observe_duration(Work::ReadResponse(routed.parser), began.elapsed());
        if let (Some(flow), Some(usage)) = (&routed.flow, usage) {
            self.core.admission.served(&self.core, flow, (usage.input, usage.output));
        }
        let end = RequestSummary {
            duration: routed.since.elapsed(),
            first_byte: routed.first_byte,
            response_bytes: routed.response_bytes,
            stream: routed.stream,
            usage,
            status: routed.status,
            is_complete,
        };
        if let Some(record) = &routed.record {
            record.ended(&end);
        }
        if let Some(entry) = routed.trace.take() {
            entry.ended(usage.as_ref(), self.core.pool.member(routed.slot).as_deref());
        }
        if let Some(request) = &routed.in_flight {
            self.core.admission.ended(&self.core, request);
        }
        metrics.finished(&routed.labels, end);
        self.core.state.write().release(routed.reservation);
    }
}

/// The code of a response with an error. A client's mistake says nothing about the engine, whoever finds it. With 429, the engine
/// refuses work that others gave it.
fn error_code(status: u16) -> &'static str {
    match status {
        400..=428 | 430..=499 => "BadRequest",
        _ => "ModelServerError",
    }
}

/// Returns the dynamic metadata for the proxy about a complete response.
fn reported(reports: &[Report], usage: &UsageScan) -> Metadata {
    let mut metadata = Metadata::default();
    if reports.is_empty() {
        return metadata;
    }
    let usage = usage.usage().unwrap_or_default();
    for report in reports {
        if let Some(number) = report.of(usage) {
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
