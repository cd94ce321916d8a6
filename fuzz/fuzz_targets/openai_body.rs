#![no_main]

#[path = "../src/openai.rs"]
mod openai;

libfuzzer_sys::fuzz_target!(|data: &[u8]| openai::openai_body(data));
