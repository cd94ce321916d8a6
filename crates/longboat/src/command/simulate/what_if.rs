//! `simulate` on the dashboard: a service with several numbers of replicas, side by side.

use anyhow::{anyhow, bail};
use clap::Parser;
use longboat_api::v1alpha2::LLMInferenceService;
use longboat_dashboard::Simulation;
use longboat_offline::scene::Scene;
use longboat_plan::counted;
use longboat_simulate::{
    advice, limit,
    page::{self, Section},
};
use serde_json::{Value, json};

use super::{one, requests, service};
use crate::cli::SimulateArgs;

/// Requests of each simulation: enough for a P99, and a second or two of a core for all columns.
const REQUESTS: u64 = 2000;

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    args: SimulateArgs,
}

/// Returns the page that `simulate --html` would write, with a column for each number of replicas, and the notes of the command.
pub(crate) fn what_if(
    scene: &Scene,
    service: &LLMInferenceService,
    request: &Simulation,
) -> anyhow::Result<Value> {
    let args = flags(request)?;
    let model = service::of_scene(&args, scene, service)?;
    let [policy, ..] = &model.policies[..] else {
        bail!(
            "service {} has no picker whose configuration is known, so nothing can be simulated: give it one with spec.router.scheduler",
            model.name
        )
    };
    let own = model.pool.first().map_or(1, |group| group.replicas);
    let numbers = if request.replicas.is_empty() { around(own.max(1)) } else { request.replicas.clone() };
    let mut reports = Vec::new();
    for replicas in numbers {
        let mut report = one(&args, &model, policy, Some(replicas), requests(&args)?)?;
        report.policy = counted(replicas, "replica");
        if replicas == own {
            report.policy.push_str(" (now)");
        }
        reports.push(report);
    }
    let mut sentences: Vec<String> =
        reports.iter().map(|report| format!("{}: {}", report.policy, limit(report))).collect();
    sentences.extend(advice(&reports[..1], &[]));
    let section = Section { heading: "", reports: &reports, sentences: &sentences };
    Ok(json!({"page": page::html(&model.name, &[section]), "notes": model.notes}))
}

fn flags(request: &Simulation) -> anyhow::Result<SimulateArgs> {
    let mut words = vec![
        "simulate".to_owned(),
        format!("--generate={}", request.traffic),
        format!("--rate={}", request.rate),
        format!("--requests={REQUESTS}"),
        // The number of each column takes the place of an autoscaler.
        "--replicas=1".to_owned(),
    ];
    if !request.engine_args.trim().is_empty() {
        words.push(format!("--engine-args={}", request.engine_args));
    }
    let flags = Flags::try_parse_from(words).map_err(|error| anyhow!("{error}"))?;
    Ok(flags.args)
}

/// The numbers of replicas to compare if the person names none: half of them, the service's own, one more, and twice as many.
fn around(own: usize) -> Vec<usize> {
    let mut numbers = vec![own.div_ceil(2), own, own + 1, own * 2];
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

#[cfg(test)]
mod tests {
    use longboat_offline::Settings;

    use super::*;

    const SERVICE: &str = "{apiVersion: serving.kserve.io/v1alpha2, kind: LLMInferenceService, metadata: {name: chat}, \
        spec: {model: {uri: 'hf://org/model'}, replicas: 3, router: {route: {}, gateway: {}, scheduler: {}}}}";

    fn simulated(request: &Simulation) -> anyhow::Result<String> {
        simulated_of(SERVICE, request)
    }

    fn simulated_of(service: &str, request: &Simulation) -> anyhow::Result<String> {
        let documents = longboat_manifest::parse("service", service)?;
        let scene = Scene::new(&documents, &Settings::default())?;
        let answer = what_if(&scene, &scene.subjects[0].service, request)?;
        Ok(answer["page"].as_str().unwrap_or_default().to_owned())
    }

    #[test]
    fn the_services_own_number_of_replicas_is_compared_with_others_and_wrong_flags_are_named() {
        let request = Simulation {
            traffic: "sessions".into(),
            rate: 5.0,
            replicas: Vec::new(),
            engine_args: "--max-num-batched-tokens 4096".into(),
        };
        let page = simulated(&request).unwrap();
        for column in ["2 replicas", "3 replicas (now)", "4 replicas", "6 replicas"] {
            assert!(page.contains(&format!("</span>{column}</th>")), "{column}: {page}");
        }
        let one = simulated(&Simulation { replicas: vec![1], ..request.clone() }).unwrap();
        assert!(one.contains("</span>1 replica</th>") && !one.contains("3 replicas"), "{one}");
        for (wrong, expected) in [
            (Simulation { traffic: "rain".into(), ..request.clone() }, "'rain'"),
            (Simulation { engine_args: "--no-such-flag 3".into(), ..request.clone() }, "no-such-flag"),
        ] {
            let error = format!("{:#}", simulated(&wrong).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_service_without_a_picker_or_a_replica_gets_an_answer_for_a_page() {
        let request = Simulation {
            traffic: "poisson".into(),
            rate: 5.0,
            replicas: Vec::new(),
            engine_args: String::new(),
        };
        let error = simulated_of(&SERVICE.replace(", scheduler: {}", ""), &request).unwrap_err().to_string();
        assert!(error.contains("chat has no picker") && !error.contains("--"), "{error}");
        let idle = simulated_of(&SERVICE.replace("replicas: 3", "replicas: 0"), &request).unwrap();
        assert!(idle.contains("</span>1 replica</th>") && idle.contains("</span>2 replicas</th>"), "{idle}");
    }
}
