//! How long it takes to read and render a thousand services, from the text of the manifests to the text of their children.
//!
//! `cargo run --release -p longboat-offline --example render_time`
#![expect(clippy::print_stdout, reason = "the output of a measurement")]

use std::time::Instant;

use longboat_manifest::parse;
use longboat_offline::{
    render,
    scene::{Scene, Settings},
};

const SERVICES: usize = 1000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text: String = (0..SERVICES).map(service).collect();
    for _ in 0..5 {
        let start = Instant::now();
        let milliseconds = || start.elapsed().as_secs_f64() * 1e3;
        let documents = parse("many.yaml", &text)?;
        let read = milliseconds();
        let scene = Scene::new(&documents, &Settings::default())?;
        let world = milliseconds();
        let services: Vec<_> = scene.subjects.iter().map(|subject| subject.service.as_ref()).collect();
        let mut objects = Vec::new();
        for rendered in render::all(&scene, &services) {
            objects.extend(rendered?.objects.into_iter().map(|object| object.value));
        }
        let rendered = milliseconds();
        let yaml = render::to_yaml(&objects);
        let whole = milliseconds();
        println!(
            "{SERVICES} services, {} children, {} KiB: {:.0} ms, of which {:.0} ms reading, {:.0} ms the world, {:.0} ms \
             rendering, {:.0} ms printing",
            objects.len(),
            yaml.len() >> 10,
            whole,
            read,
            world - read,
            rendered - world,
            whole - rendered,
        );
    }
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
