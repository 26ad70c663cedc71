"""All wrong brokers, in the order of the stages that find them."""

import mutants_bounds
import mutants_faults
import mutants_frames
import mutants_keeping
import mutants_options
import mutants_pace
import mutants_topics

MUTANTS = [
    *mutants_frames.MUTANTS,
    *mutants_topics.MUTANTS,
    *mutants_pace.MUTANTS,
    *mutants_keeping.MUTANTS,
    *mutants_faults.MUTANTS,
    *mutants_bounds.MUTANTS,
    *mutants_options.MUTANTS,
]
