#![no_main]

#[path = "../src/data_plane.rs"]
mod data_plane;

libfuzzer_sys::fuzz_target!(|data: &[u8]| data_plane::ext_proc_frames(data));
