//! The pool and the picker of a service, from its manifest. What is planned is what a controller would create.

use std::collections::BTreeSet;

use anyhow::{Context as _, anyhow, bail};
use longboat_api::{
    foreign::scaledobject::ScaledObject,
    v1alpha2::{LLMInferenceService, WorkloadSpec},
};
use longboat_engine_model::Parameters;
use longboat_key::{Name, Namespace};
use longboat_offline::scene::Scene;
use longboat_plan::{PickerConfig, models_of_spec, names};
use longboat_simulate::{AutoscalerSettings, Policy, PoolSettings, trace::TraceRequest};

use crate::{
    cli::{AutoscalerKind, SimulateArgs},
    command::input,
};

/// The service that is simulated if no manifest is given: the picker's configuration is that of the preset.
const DEFAULT_SERVICE: &str = "\
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata:
  name: default
spec:
  model:
    uri: hf://org/model
    name: model
  replicas: 4
  router:
    route: {}
    gateway: {}
    scheduler: {}
";

/// The beginning of names with a namespace.
const FULL_NAME: &str = "publishers/";

/// What is known of a service.
#[derive(Debug)]
pub(super) struct ServiceModel {
    pub(super) name: String,
    /// The names of its model and adapters in requests, short and in full. Empty: nobody has named a service, and any name is right.
    pub(super) serves: BTreeSet<String>,
    pub(super) pool: Vec<PoolSettings>,
    pub(super) policies: Vec<Policy>,
    pub(super) autoscaler: Option<AutoscalerSettings>,
    /// What the result does not say, for the person.
    pub(super) notes: Vec<String>,
}

/// Plans the services of the manifests.
pub(super) fn models(args: &SimulateArgs) -> anyhow::Result<Vec<ServiceModel>> {
    let files = args.manifests.files();
    let documents = if files.is_empty() {
        longboat_manifest::parse("the default service", DEFAULT_SERVICE)?
    } else {
        input::documents(&files)?
    };
    let scene = Scene::new(&documents, &input::settings(&args.environment)?)?;
    if !input::is_accepted(&scene) {
        return Err(input::refused());
    }
    let services: Vec<_> = scene.subjects.iter().filter(|subject| subject.given).collect();
    if services.is_empty() {
        return Err(input::no_service(&documents));
    }
    let mut models = services
        .into_iter()
        .map(|subject| of_scene(args, &scene, &subject.service))
        .collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(model) = models.iter().find(|model| model.policies.is_empty() && args.configs.is_empty()) {
        bail!("service {} has no picker whose configuration is known: pass one with --config", model.name);
    }
    if files.is_empty() {
        for model in &mut models {
            model.serves.clear();
        }
    }
    Ok(models)
}

impl ServiceModel {
    /// The names of its model and its adapters, without the full ones that stand for the same.
    pub(super) fn short_names(&self) -> Vec<&str> {
        self.serves.iter().map(String::as_str).filter(|name| !name.starts_with(FULL_NAME)).collect()
    }

    /// Checks that a request asks for nothing that the service lacks. One without a name asks for its model.
    pub(super) fn check(&self, request: &TraceRequest) -> Result<(), String> {
        let model = request.asks_for();
        if model.is_empty() || self.serves.is_empty() || self.serves.contains(model) {
            return Ok(());
        }
        let names = self.short_names();
        let first = names.first().copied().unwrap_or_default();
        Err(format!(
            "{} does not serve `{model}`, only {}: pass --map-model '{model}={first}' (or '*={first}' for every other name), or the \
             manifests of all services of the trace",
            self.name,
            names.join(", ")
        ))
    }
}

/// Plans a service, and reads the number of its replicas and its picker's configuration.
pub(super) fn of_scene(
    args: &SimulateArgs,
    scene: &Scene,
    service: &LLMInferenceService,
) -> anyhow::Result<ServiceModel> {
    let own = Name::of(&service.metadata);
    let name = own.to_string();
    let planned = scene.plan(service).with_context(|| format!("cannot plan {name}"))?;
    let effective = planned.effective.as_ref().ok_or_else(|| anyhow!("service {name} is stopped"))?;
    let engine = engine(args)?;
    let mut notes: Vec<String> =
        accuracy_notes(&engine, args.engine_args.is_some()).into_iter().map(str::to_owned).collect();
    let replicas = |workload: &WorkloadSpec| {
        workload.replicas.and_then(|replicas| usize::try_from(replicas).ok()).unwrap_or(1)
    };
    let group = |labels, replicas| PoolSettings { labels, replicas, engine, accelerators: args.accelerators };
    let spec = &effective.spec;
    let children = &planned.plan.children;
    let scaled = children.named::<ScaledObject>(&names::scaled_object(own, false));
    let least = spec.workload.scaling.as_ref().and_then(|scaling| scaling.min_replicas).unwrap_or(1);
    let has_own_number = !args.replicas.is_empty() || args.sweep.is_some();
    let autoscaler = match (&args.autoscale, scaled) {
        (Some((metric, target)), _) => {
            let bounds = (args.min_replicas, args.max_replicas);
            if bounds.0 > bounds.1 {
                bail!("--min-replicas {}: expected at most --max-replicas, which is {}", bounds.0, bounds.1);
            }
            if bounds.0 == 0 && args.autoscaler == AutoscalerKind::Hpa {
                bail!("--min-replicas 0: a HorizontalPodAutoscaler keeps a replica; use --autoscaler keda");
            }
            let is_keda = args.autoscaler == AutoscalerKind::Keda;
            Some(AutoscalerSettings::of_metric(metric, *target, bounds, is_keda))
        }
        (None, Some(scaled)) if !has_own_number => Some(AutoscalerSettings::from(scaled.spec.clone())),
        (None, _) => None,
    };
    if autoscaler.is_none() && spec.workload.scaling.is_some() && !has_own_number {
        notes.push(format!(
            "{name}: the Workload Variant Autoscaler is not simulated: the service has {least} replicas; \
             --replicas and --autoscale say otherwise"
        ));
    }
    let decode = match (&args.autoscale, &spec.workload.scaling) {
        (Some(_), _) => usize::try_from(args.min_replicas.max(1)).unwrap_or(1),
        (None, Some(_)) => usize::try_from(least.max(1)).unwrap_or(1),
        (None, None) => replicas(&spec.workload),
    };
    if decode == 0 && !has_own_number {
        bail!(
            "service {name}: spec.replicas is 0, so nothing would answer: set it to 1 or more, pass --replicas N, or simulate an \
             autoscaler that wakes it: --autoscale llm_d_epp_flow_control_queue_size=1 --autoscaler keda --min-replicas 0"
        );
    }
    let labels = |deployment: &str, group: &str| {
        let template = children.serving_pods(deployment, group).and_then(|pods| pods.metadata.as_ref());
        template.and_then(|metadata| metadata.labels.clone()).unwrap_or_default()
    };
    let mut pool = vec![group(labels(&names::workload(own), &names::workload_group(own)), decode)];
    if let Some(prefill) = &spec.prefill {
        let labels = labels(&names::prefill(own), &names::prefill_group(own));
        pool.push(group(labels, replicas(prefill)));
    }
    let picker = children.deployment(&names::scheduler(own));
    let config = picker.and_then(|picker| PickerConfig::of(picker, &planned.snapshot.config_maps));
    let policies: Vec<Policy> = config
        .into_iter()
        .map(|config| Policy {
            name: name.clone(),
            config: config.text,
            gates: config.gates,
            allow_experimental: config.allow_experimental,
        })
        .collect();
    let namespace = Namespace::of(&service.metadata);
    let serves = models_of_spec(spec, own)
        .into_iter()
        .flat_map(|model| [model.to_owned(), format!("publishers/{namespace}/models/{model}")]);
    Ok(ServiceModel { name, serves: serves.collect(), pool, policies, autoscaler, notes })
}

/// What the numbers of the engines do not say about a real engine. Results look just as sure without it.
fn accuracy_notes(engine: &Parameters, is_given: bool) -> Vec<&'static str> {
    let times = "note: the engine has the times of `longboat up --engine sim`; for those of yours, pass what `longboat simulate \
                 calibrate URL` prints as --engine-args";
    let load = "note: prompts are computed side by side and slow nothing down, because --engine-args has no \
                --max-num-batched-tokens: under load, times are too good, and --sweep finds too few replicas";
    let applies = [(times, !is_given), (load, engine.timing.max_batched_tokens.is_none())];
    applies.into_iter().filter(|(_, applies)| *applies).map(|(caution, _)| caution).collect()
}

/// The numbers of the engines: those of `longboat up`'s simulator, unless flags say otherwise. The length of the model is no limit unless
/// a flag gives it: traces come from models of all lengths.
fn engine(args: &SimulateArgs) -> anyhow::Result<Parameters> {
    let flags = args.engine_args.as_deref().unwrap_or_default();
    let words: Vec<&str> = std::iter::once("model").chain(flags.split_whitespace()).collect();
    let parsed = longboat_sim::Args::vllm(&words).context("--engine-args")?;
    match &longboat_sim::Args::without_load(&words)[..] {
        [] if flags.contains("--max-model-len") => Ok(parsed.parameters()),
        [] => Ok(Parameters { max_model_len: usize::MAX, ..parsed.parameters() }),
        ignored => {
            bail!(
                "--engine-args: {} changes nothing here: expected those flags of `longboat sim` that are about times, the batch and the KV \
                 cache, such as --max-num-seqs 64",
                ignored.join(", ")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Parameters, accuracy_notes};

    #[test]
    fn an_engine_whose_prompts_wait_for_nothing_is_named_and_so_are_times_that_nobody_measured() {
        let engine = |flags: &[&str]| -> Parameters {
            longboat_sim::Args::vllm(&[&["model"], flags].concat()).unwrap().parameters()
        };
        let says = |flags: &[&str], is_given| {
            let all = accuracy_notes(&engine(flags), is_given);
            ["longboat up --engine sim", "--max-num-batched-tokens"]
                .map(|word| all.iter().any(|caution| caution.contains(word)))
        };
        assert_eq!(says(&[], false), [true, true]);
        assert_eq!(says(&["--max-num-seqs", "4"], true), [false, true]);
        assert_eq!(says(&["--max-num-batched-tokens", "4096"], true), [false, false]);
    }
}
