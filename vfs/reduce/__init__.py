"""Results from frames: reductions, and the one pass over a scan that feeds any number of them.

`reduction` says what a reduction is, `over_frames` and `in_frames` hold those that everybody wants,
`masks` the shapes on a detector that these look at, `blocks` brings frames into reach, `passes`
runs them, `result` is what comes out.
"""
