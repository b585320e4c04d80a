-- For the rest of the transaction: read along an index, in its order, and stop at a LIMIT. Of a topic that is not known
-- before, the planner guesses how many rows it has; guessing few, it fetches all that there are and sorts them.
select set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true),
       set_config('enable_seqscan', 'off', true)
