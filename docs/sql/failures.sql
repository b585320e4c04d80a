-- The last ten failures of one job, oldest first: psql -v id=… -f failures.sql
select failure.*
from job, jsonb_to_recordset(failures) as failure (attempt int, at timestamptz, worker text, error text)
where id = :'id'
order by failure.at;
