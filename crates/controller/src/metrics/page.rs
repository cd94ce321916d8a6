//! The `/metrics` page.

use std::{collections::BTreeMap, sync::Arc};

use longboat_api::{
    annotations::{self, ACCELERATOR_TYPE},
    v1alpha2::LLMInferenceService,
};
use longboat_metrics::{Decimal, labels};
use longboat_plan::accelerator_type;
use prometheus_client::{
    metrics::{
        counter::{ConstCounter, Counter},
        family::Family,
        gauge::Gauge,
    },
    registry::Registry,
};

use super::{BuildLabels, QueueLabels, Worker, process::Usage};
use crate::{context::Context, queue::Load};

/// Most services whose conditions get lines of their own. With ten conditions each, that is 20,000 lines.
const MAX_SERVICES: usize = 2000;

labels! {
    struct ConditionLabels {
        // Not `namespace` and `service`: Prometheus sets those labels to the scraped pod's.
        service_namespace: String,
        service_name: String,
        condition: String,
    }
    struct SpanLabel { result: &'static str }
    struct ReadyLabel { ready: &'static str }

    /// The labels of KServe's info metric, under its names.
    struct InfoLabels {
        namespace: String, name: String, accelerator: String, model_name: String, model_uri: String,
    }
}

/// All metrics at this moment, in the OpenMetrics text format.
pub(super) fn page(context: &Context) -> String {
    let mut registry = Registry::default();
    context.metrics.add_to(&mut registry);
    queues(context, &mut registry);
    let all: Vec<_> = context.caches.inference_services.all().collect();
    services(&all, MAX_SERVICES, &mut registry);
    info(&all, &mut registry);
    traces(&mut registry);
    process(&mut registry);
    let build: Family<BuildLabels, Gauge> = Family::default();
    build.get_or_create(&BuildLabels { version: env!("CARGO_PKG_VERSION") }).set(1);
    registry.register("longboat_build_info", "The build, in labels", build);
    let mut page = String::new();
    if let Err(error) = prometheus_client::encoding::text::encode(&mut page, &registry) {
        tracing::warn!(%error, "Cannot print the metrics.");
    }
    page
}

fn queues(context: &Context, registry: &mut Registry) {
    let depth: Family<QueueLabels, Gauge> = Family::default();
    let (unfinished, longest): (Family<QueueLabels, Decimal>, Family<QueueLabels, Decimal>) =
        (Family::default(), Family::default());
    for (worker, load) in
        [(Worker::Services, context.services.load()), (Worker::Configs, context.configs.load())]
    {
        let Load { waiting, unfinished: all, longest: one } = load;
        depth.get_or_create(&worker.queue()).set(i64::try_from(waiting).unwrap_or(i64::MAX));
        unfinished.get_or_create(&worker.queue()).set(all.as_secs_f64());
        longest.get_or_create(&worker.queue()).set(one.as_secs_f64());
    }
    registry.register("workqueue_depth", "Objects in the queue", depth);
    registry.register(
        "workqueue_unfinished_work_seconds",
        "Total time that running reconciles have taken so far",
        unfinished,
    );
    let help = "Time that the longest running reconcile has taken so far";
    registry.register("workqueue_longest_running_processor_seconds", help, longest);
}

fn services(all: &[Arc<LLMInferenceService>], limit: usize, registry: &mut Registry) {
    let mut ready: BTreeMap<&'static str, i64> = [("True", 0), ("False", 0), ("Unknown", 0)].into();
    // Made anew for each scrape, so that the series of a deleted service go with it.
    let conditions: Family<ConditionLabels, Gauge> = Family::default();
    let mut left_out = 0;
    for (index, service) in all.iter().enumerate() {
        if index >= limit {
            left_out += 1;
        }
        let found = service.status.iter().flat_map(|status| &status.conditions);
        let mut state = "Unknown";
        for condition in found {
            let (name, value) = if condition.is_true() {
                ("True", 1)
            } else if condition.is_false() {
                ("False", 0)
            } else {
                ("Unknown", -1)
            };
            if condition.type_ == longboat_api::conditions::types::READY {
                state = name;
            }
            if index < limit {
                let labels = ConditionLabels {
                    service_namespace: service.metadata.namespace.clone().unwrap_or_default(),
                    service_name: service.metadata.name.clone().unwrap_or_default(),
                    condition: condition.type_.clone(),
                };
                conditions.get_or_create(&labels).set(value);
            }
        }
        *ready.entry(state).or_default() += 1;
    }
    let counts: Family<ReadyLabel, Gauge> = Family::default();
    for (ready, count) in ready {
        counts.get_or_create(&ReadyLabel { ready }).set(count);
    }
    registry.register("longboat_services", "Services by the status of their condition Ready", counts);
    let help = "Conditions of services: 1 is True, 0 is False, -1 is Unknown";
    registry.register("longboat_service_condition", help, conditions);
    let not_told: Gauge = Gauge::default();
    not_told.set(left_out);
    registry.register(
        "longboat_service_condition_left_out",
        "Services beyond the limit, whose conditions have no series",
        not_told,
    );
}

/// One series for each service that may serve: not for stopped ones, and not for those that are being deleted.
fn info(all: &[Arc<LLMInferenceService>], registry: &mut Registry) {
    let info: Family<InfoLabels, Gauge> = Family::default();
    for service in all {
        let LLMInferenceService { metadata, spec, status } = service.as_ref();
        if metadata.deletion_timestamp.is_some() || annotations::is_stopped(metadata.annotations.as_ref()) {
            continue;
        }
        let name = metadata.name.clone().unwrap_or_default();
        // Until the first reconcile has written the type for the merged spec, the service's own spec is all that is known.
        let written = status.as_ref().and_then(|status| status.annotations.get(ACCELERATOR_TYPE));
        let labels = InfoLabels {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            accelerator: written.map_or_else(|| accelerator_type(spec), String::as_str).to_owned(),
            model_name: spec
                .model
                .name
                .clone()
                .filter(|name| !name.is_empty())
                .unwrap_or_else(|| name.clone()),
            model_uri: spec.model.uri.to_string(),
            name,
        };
        info.get_or_create(&labels).set(1);
    }
    let help = "A service that is neither stopped nor deleted, in labels; the value is 1";
    registry.register("kserve_llminferenceservice_info", help, info);
}

fn traces(registry: &mut Registry) {
    let spans: Family<SpanLabel, Counter> = Family::default();
    let counts = longboat_telemetry::traces::counts();
    spans.get_or_create(&SpanLabel { result: "sent" }).inc_by(counts.sent);
    spans.get_or_create(&SpanLabel { result: "dropped" }).inc_by(counts.dropped);
    registry.register("longboat_trace_spans", "Spans of traces by result", spans);
}

fn process(registry: &mut Registry) {
    let usage = Usage::read();
    if let Some(seconds) = usage.cpu_seconds {
        registry.register("process_cpu_seconds", "CPU time used", ConstCounter::new(seconds));
    }
    let mut gauge = |name: &str, help: &str, value: Option<f64>| {
        if let Some(value) = value {
            let gauge = Decimal::default();
            gauge.set(value);
            registry.register(name, help, gauge);
        }
    };
    #[expect(clippy::cast_precision_loss, reason = "bytes and counts far below 2^52")]
    let number = |value: Option<u64>| value.map(|value| value as f64);
    gauge(
        "process_start_time_seconds",
        "Start time of the process, in seconds since 1970",
        usage.start_seconds,
    );
    gauge("process_resident_memory_bytes", "Memory in use", number(usage.resident_bytes));
    gauge("process_virtual_memory_bytes", "Address space in use", number(usage.virtual_bytes));
    gauge("process_open_fds", "Open files", number(usage.open_fds));
    gauge("process_max_fds", "Maximum number of open files", number(usage.max_fds));
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        let tasks: Gauge = Gauge::default();
        tasks.set(i64::try_from(runtime.metrics().num_alive_tasks()).unwrap_or(i64::MAX));
        registry.register("longboat_runtime_tasks", "Live tasks of the async runtime", tasks);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(name: &str, ready: &str) -> Arc<LLMInferenceService> {
        let conditions = json!([
            {"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"},
            {"type": "RouterReady", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        ]);
        let object = json!({
            "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
            "metadata": {"name": name, "namespace": "ns"}, "spec": {"model": {"uri": "hf://a/b"}},
            "status": {"conditions": conditions},
        });
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn page(all: &[Arc<LLMInferenceService>], limit: usize) -> String {
        let mut registry = Registry::default();
        services(all, limit, &mut registry);
        let mut page = String::new();
        prometheus_client::encoding::text::encode(&mut page, &registry).unwrap();
        page
    }

    #[test]
    fn conditions_are_told_of_a_bounded_number_of_services_and_all_are_counted() {
        let all = [service("a", "True"), service("b", "False"), service("c", "Unknown")];
        let text = page(&all, 2);
        for line in [
            "longboat_service_condition{service_namespace=\"ns\",service_name=\"a\",condition=\"Ready\"} 1",
            "longboat_service_condition{service_namespace=\"ns\",service_name=\"b\",condition=\"Ready\"} 0",
            "longboat_services{ready=\"Unknown\"} 1",
            "longboat_service_condition_left_out 1",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert!(!text.contains("service_name=\"c\""), "{text}");
        assert!(!page(&all[1..], 2).contains("service_name=\"a\""), "who is gone is not told of");
    }
    #[test]
    fn each_service_that_may_serve_has_a_series_with_its_model_and_accelerator() {
        let object = |name: &str, more: serde_json::Value| {
            let mut object = json!({
                "metadata": {"name": name, "namespace": "ns"},
                "spec": {"model": {"uri": "hf://a/b", "name": "m"}, "template": {"containers": [
                    {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}},
                ]}},
            });
            json_patch::merge(&mut object, &more);
            Arc::new(serde_json::from_value(object).unwrap())
        };
        let merged = json!({"status": {"annotations": {"serving.kserve.io/accelerator-type": "cpu"}}});
        let stopped = json!({"metadata": {"annotations": {"serving.kserve.io/stop": "True"}}});
        let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let unnamed = json!({"spec": {"model": {"name": null}, "template": null}});
        let all = [
            object("new", json!({})),
            object("merged", merged),
            object("unnamed", unnamed),
            object("stopped", stopped),
            object("deleted", deleted),
        ];
        let mut registry = Registry::default();
        info(&all, &mut registry);
        let mut page = String::new();
        prometheus_client::encoding::text::encode(&mut page, &registry).unwrap();
        let mut series: Vec<_> = page.lines().filter(|line| !line.starts_with('#')).collect();
        series.sort_unstable();
        let line = |name: &str, accelerator: &str, model: &str| {
            format!(
                "kserve_llminferenceservice_info{{namespace=\"ns\",name=\"{name}\",accelerator=\"{accelerator}\",\
                 model_name=\"{model}\",model_uri=\"hf://a/b\"}} 1"
            )
        };
        let expected =
            [line("merged", "cpu", "m"), line("new", "gpu", "m"), line("unnamed", "cpu", "unnamed")];
        assert_eq!(series, expected);
    }
}
