//! The library of the model `mtmalloc-exclusive`.

#![no_std]

freehold_classic::export!("freehold_model_mtmalloc_exclusive", freehold_classic::Exclusive);
