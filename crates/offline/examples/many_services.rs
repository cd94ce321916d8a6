//! Measures how long it takes to validate and to render a thousand services, starting with the text of the manifests. The
//! table in benches/README.md has both rows.
//!
//! `cargo run --release -p longboat-offline --example many_services`
#![expect(clippy::print_stdout, reason = "the output of a measurement")]

use std::time::Instant;

use longboat_manifest::{parse, parse_all};
use longboat_offline::{Settings, render, scene::Scene, validate::validate};

const SERVICES: usize = 1000;
/// The first round includes the work that is done only once.
const ROUNDS: usize = 5;

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text: String = (0..SERVICES).map(service).collect();
    for _ in 0..ROUNDS {
        validated(&text);
    }
    for _ in 0..ROUNDS {
        rendered(&text)?;
    }
    Ok(())
}

fn validated(text: &str) {
    let start = Instant::now();
    let reading = parse_all("many.yaml", text);
    let read = start.elapsed();
    let report = validate(reading, &Settings::default());
    println!(
        "validate: {} objects, {} findings: {:.0} ms, of which {:.0} ms reading",
        report.checked.len(),
        report.findings.len(),
        start.elapsed().as_secs_f64() * 1e3,
        read.as_secs_f64() * 1e3
    );
}

fn rendered(text: &str) -> Result<(), Box<dyn std::error::Error>> {
    let start = Instant::now();
    let milliseconds = || start.elapsed().as_secs_f64() * 1e3;
    let documents = parse("many.yaml", text)?;
    let read = milliseconds();
    let scene = Scene::new(&documents, &Settings::default())?;
    let world = milliseconds();
    let services: Vec<_> = scene.subjects.iter().map(|subject| subject.service.as_ref()).collect();
    let mut text = String::new();
    for rendered in render::all(&scene, &services, render::documents) {
        text.push_str(&rendered?.objects);
    }
    let whole = milliseconds();
    println!(
        "render: {SERVICES} services, {} children, {} KiB: {whole:.0} ms, of which {read:.0} ms reading, {:.0} ms the \
         world, {:.0} ms rendering",
        text.matches("---\n").count(),
        text.len() >> 10,
        world - read,
        whole - world,
    );
    Ok(())
}

fn service(number: usize) -> String {
    format!(
        "---
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata:
  name: service-{number}
  namespace: team-{}
  labels: {{app: chat, tier: gold}}
spec:
  model:
    uri: hf://org/model-{number}
    name: org/model-{number}
  replicas: 3
  router:
    route: {{}}
    gateway: {{}}
    scheduler: {{}}
  template:
    containers:
    - name: main
      image: registry.example/vllm:v1
      args: [--max-model-len, \"8192\", --enable-prefix-caching]
      env:
      - name: HF_HOME
        value: /cache
      resources:
        requests: {{cpu: \"4\", memory: 32Gi}}
        limits: {{memory: 32Gi, nvidia.com/gpu: \"1\"}}
",
        number % 10
    )
}
