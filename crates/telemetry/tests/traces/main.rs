//! Tests of traces with a collector.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

#[expect(dead_code, reason = "shared with the test over TLS")]
mod collector;

use collector::Collector;
use longboat_telemetry::{
    logging::{self, LogOptions},
    traces::{Exporter, Otlp, SPANS, SpanCounts, TraceHeaders, counts, join_trace},
};

/// There is only one test, because a process has only one destination of spans.
#[tokio::test]
async fn spans_arrive_with_their_parents_and_what_there_is_no_room_for_is_counted() {
    let collector = Collector::start().await;
    let otlp = Otlp { otlp_endpoint: Some(collector.url.clone()), traces_exporter: None };
    let off = Otlp { traces_exporter: Some(Exporter::None), ..otlp.clone() };
    assert!(off.traces("test").is_none());
    let traces = otlp.traces("test").unwrap();
    logging::init(&LogOptions { default_filter: "off".to_owned(), ..LogOptions::default() }, Some(&traces));

    let parent = tracing::trace_span!(target: SPANS, "parent", answer = 42);
    parent.in_scope(|| drop(tracing::trace_span!(target: SPANS, "child")));
    parent.in_scope(|| drop(tracing::error_span!("of others")));
    drop(parent);
    let joined = tracing::trace_span!(target: SPANS, "joined");
    let parent = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    join_trace(&joined, TraceHeaders { parent, state: None });
    drop(joined);
    // More spans than the queue holds, before sending starts.
    for _ in 0..5000 {
        drop(tracing::trace_span!(target: SPANS, "flood"));
    }
    let SpanCounts { sent, dropped } = counts();
    assert_eq!(sent, 0);
    assert_eq!(dropped, 5003 - 4096);
    traces.start().unwrap().end().await;

    assert_eq!(counts(), SpanCounts { sent: 4096, dropped });
    let arrived = collector.arrived();
    assert_eq!(arrived.len(), 4096);
    assert!(arrived.iter().all(|found| found.service == "test"));
    let named = |name: &str| arrived.iter().find(|found| found.span.name == name);
    let (parent, child) = (named("parent").unwrap(), named("child").unwrap());
    assert_eq!(child.span.parent_span_id, parent.span.span_id);
    assert_eq!(child.span.trace_id, parent.span.trace_id);
    assert_eq!(parent.attribute("answer").as_deref(), Some("42"));
    assert!(named("of others").is_none());
    let joined = &named("joined").unwrap().span;
    assert_eq!(joined.trace_id[..2], [0x0a, 0xf7]);
    assert_eq!(joined.parent_span_id[..2], [0xb7, 0xad]);
}
