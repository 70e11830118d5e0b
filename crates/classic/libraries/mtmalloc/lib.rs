//! The library of the model `mtmalloc`.

#![no_std]

freehold_classic::export!("freehold_model_mtmalloc", freehold_classic::Mtmalloc);
